"""JupyterHub for a class on one server with Docker: each student has a container, and sees nothing of the others.

``docs/hub.md`` explains it. Build the image first: ``docker build -f hub/Dockerfile -t nbgrad-class .``
"""

import os
import sys

c = get_config()  # noqa: F821  # JupyterHub has it there when it reads this file

MEMORY = os.environ.get("HUB_MEMORY", "1G")
IMAGE = os.environ.get("HUB_IMAGE", "nbgrad-class")
NETWORK = os.environ.get("HUB_NETWORK", "nbgrad-class")
ADMINS = {name for name in os.environ.get("HUB_ADMINS", "").split(",") if name}
if not ADMINS:
    raise ValueError("set HUB_ADMINS to the names of those who may manage the hub, with commas between them")

# Accounts with a password each: students sign up, and an admin lets them in. Replace it by the login of your school,
# such as oauthenticator's or ldapauthenticator's.
c.JupyterHub.authenticator_class = "native"
c.Authenticator.admin_users = ADMINS
c.Authenticator.allow_all = True  # everyone whom an admin has let in
c.Authenticator.username_pattern = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"

c.JupyterHub.bind_url = os.environ.get("HUB_URL", "http://:8000")
# The proxy reaches the hub inside of this computer, containers over their own network. In a container this computer
# has a name that it does not know itself.
c.JupyterHub.hub_ip = "0.0.0.0"
c.JupyterHub.hub_connect_ip = "127.0.0.1"
c.Spawner.hub_connect_url = f"http://{os.environ.get('HUB_HOST', 'host.docker.internal')}:8081"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"

c.JupyterHub.spawner_class = "docker"
c.DockerSpawner.image = IMAGE
c.DockerSpawner.network_name = NETWORK
c.DockerSpawner.remove = True  # the container; the volume with the notebooks stays
c.DockerSpawner.volumes = {"nbgrad-{username}": "/srv/student/work"}
c.DockerSpawner.notebook_dir = "/srv/student/work"
c.DockerSpawner.extra_host_config = {
    "extra_hosts": {"host.docker.internal": "host-gateway"},
    "security_opt": ["no-new-privileges"],
    "cap_drop": ["ALL"],
    "pids_limit": 256,
    "memswap_limit": MEMORY,  # memory and swap together: without it, a container takes as much again of the swap
    "read_only": True,  # all containers share the environment of the image
    "tmpfs": {"/tmp": "size=256m", "/srv/student/.local": "", "/srv/student/.ipython": "", "/srv/student/.jupyter": ""},
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
]
c.JupyterHub.load_roles = [
    {
        "name": "idle-culler",
        "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        "services": ["idle-culler"],
    }
]
c.JupyterHub.services = [
    {"name": "idle-culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", "--timeout=3600"]}
]
