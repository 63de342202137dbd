"""JupyterHub for a class on one server with Docker: each student has a container, and sees nothing of the others.

``docs/hub.md`` explains it. Build the image first: ``docker build -f hub/Dockerfile -t nbgrad-class .``
"""

import fcntl
import os
import re
import runpy
import socket
import struct
import sys
from pathlib import Path

c = get_config()  # noqa: F821  # JupyterHub has it there when it reads this file

MEMORY = os.environ.get("HUB_MEMORY", "1G")
QUOTA = os.environ.get("HUB_QUOTA", "")
IMAGE = os.environ.get("HUB_IMAGE", "nbgrad-class")
NETWORK = os.environ.get("HUB_NETWORK", "nbgrad-class")
ADMINS = {name.strip().lower() for name in os.environ.get("HUB_ADMINS", "").split(",") if name.strip()}
if not ADMINS:
    raise ValueError("set HUB_ADMINS to the names of those who may manage the hub, with commas between them")
NAMES = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"
if wrong := sorted(name for name in ADMINS if not re.match(NAMES, name)):
    raise ValueError(f"HUB_ADMINS: {wrong[0]!r} is no name: letters, digits and _.@- alone, first a letter or a digit")
DATABASE = Path("hub.sqlite").resolve()

# No other user of this computer may read the files of the hub: the database holds passwords, as hashes.
os.umask(0o077)
if DATABASE.exists():
    DATABASE.chmod(0o600)

# Accounts with a password each: students sign up, and an admin lets them in. Admins cannot sign up: the hub makes their
# accounts before it listens. Replace it by the login of your school, such as oauthenticator's or ldapauthenticator's.
ACCOUNTS = runpy.run_path(str(Path(__file__).resolve().parent / "accounts.py"))
c.JupyterHub.authenticator_class = ACCOUNTS["ClassAccounts"]
c.JupyterHub.template_paths = [str(ACCOUNTS["TEMPLATES"])]
c.Authenticator.auth_refresh_age = 1  # whoever is shut out is out within a second, not within five minutes
c.Authenticator.admin_users = ADMINS
c.Authenticator.allow_all = True  # everyone whom an admin has let in
c.Authenticator.username_pattern = NAMES
c.NativeAuthenticator.minimum_password_length = 8
c.NativeAuthenticator.check_common_password = True


def bridge() -> str:
    """The address of this computer in the network of the containers, under which they reach it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            found = fcntl.ioctl(one.fileno(), 0x8915, struct.pack("256s", NETWORK.encode()[:15]))  # SIOCGIFADDR
        except OSError:
            raise ValueError(
                f"there is no network interface {NETWORK}: start Docker, and create the network as docs/hub.md says, "
                "or set HUB_IP to the address of this computer that containers reach"
            ) from None
    return socket.inet_ntoa(found[20:24])


# Browsers come through a web server with TLS on this computer: the hub itself speaks plain HTTP. Then a browser sends
# the cookies through TLS alone, and not with what other sites ask for.
c.JupyterHub.bind_url = os.environ.get("HUB_URL", "http://127.0.0.1:8000")
PUBLIC = os.environ.get("HUB_PUBLIC_URL", "")
COOKIES = {"secure": True, "samesite": "Lax"} if PUBLIC.startswith("https://") else {}
if PUBLIC:
    c.JupyterHub.public_url = PUBLIC
c.JupyterHub.tornado_settings = {"cookie_options": COOKIES}
# The hub's own interface, for the proxy and for containers.
c.JupyterHub.hub_ip = os.environ.get("HUB_IP") or bridge()
c.JupyterHub.db_url = f"sqlite:///{DATABASE}"

c.JupyterHub.spawner_class = "docker"
c.DockerSpawner.image = IMAGE
c.DockerSpawner.network_name = NETWORK
c.DockerSpawner.remove = True  # the container; the volume with the notebooks stays
c.DockerSpawner.mounts = [
    {
        "type": "volume",
        "source": "nbgrad-{username}",
        "target": "/srv/student/work",
        # Docker makes the volume of a new student with this limit. It refuses where the file system has none.
        **({"driver_config": {"Name": "local", "Options": {"size": QUOTA}}} if QUOTA else {}),
    }
]
c.DockerSpawner.notebook_dir = "/srv/student/work"
c.DockerSpawner.extra_host_config = {
    "security_opt": ["no-new-privileges"],
    "cap_drop": ["ALL"],
    "pids_limit": 256,
    "memswap_limit": MEMORY,  # memory and swap together: without it, a container takes as much again of the swap
    "read_only": True,  # all containers share the environment of the image
    # Folders in memory, which counts for the limit of the container. Without a size, each takes half of the server's.
    "tmpfs": {"/tmp": "size=256m"} | {f"/srv/student/.{name}": "size=16m" for name in ("local", "ipython", "jupyter")},
    # The log of a server: whoever prints without end would fill the disk with it.
    "log_config": {"type": "json-file", "config": {"max-size": "5m", "max-file": "2"}},
}
c.Spawner.default_url = "/lab/tree/01_slope.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.JupyterHub.concurrent_spawn_limit = 10

# Docker holds these limits: a kernel that takes more memory is ended, and JupyterLab says so.
c.Spawner.mem_limit = MEMORY
c.Spawner.cpu_limit = float(os.environ.get("HUB_PROCESSORS", "1"))
c.Spawner.environment = dict.fromkeys(["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")

c.Spawner.args = [
    "--MappingKernelManager.cull_idle_timeout=1800",
    "--MappingKernelManager.cull_interval=300",
    "--LabApp.extension_manager=readonly",
    f"--ServerApp.tornado_settings={ {'xsrf_cookie_kwargs': COOKIES} }",
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    }
]
c.JupyterHub.services = [
    {"name": "idle-culler", "command": [sys.executable, "-P", "-m", "jupyterhub_idle_culler", "--timeout=3600"]}
]
