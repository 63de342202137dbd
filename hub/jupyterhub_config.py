"""JupyterHub for a class on one computer, for a trial: it needs neither Docker nor root.

All servers run as the user that starts the hub, so students can read one another's files. For real use take
``jupyterhub_docker.py``. ``docs/hub.md`` explains both.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

c = get_config()  # noqa: F821  # JupyterHub has it there when it reads this file

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("HUB_DATA", "hub-data")).resolve()
LESSONS = Path(os.environ.get("HUB_LESSONS", HERE.parent / "notebooks"))
MEMORY = int(os.environ.get("HUB_MEMORY", "1024"))
PASSWORD = os.environ.get("HUB_PASSWORD", "")
if len(PASSWORD) < 8:
    raise ValueError("set HUB_PASSWORD, which all students type in, to a password of at least 8 characters")
os.umask(0o077)  # no other user may read the database, or what students write
DATA.mkdir(parents=True, exist_ok=True)
for file in DATA.glob("hub.sqlite*"):
    file.chmod(0o600)

# Who may come in: everyone who knows the password, under a name of their choice.
c.JupyterHub.authenticator_class = "shared-password"
c.SharedPasswordAuthenticator.user_password = PASSWORD
c.Authenticator.allow_all = True
# A name is the name of a folder, too: it begins with a letter or a digit, so `..` is none.
c.Authenticator.username_pattern = r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}$"

c.JupyterHub.bind_url = os.environ.get("HUB_URL", "http://127.0.0.1:8000")
c.JupyterHub.hub_bind_url = os.environ.get("HUB_INNER_URL", "http://127.0.0.1:8081")
c.ConfigurableHTTPProxy.api_url = os.environ.get("HUB_PROXY_URL", "http://127.0.0.1:8001")
c.JupyterHub.db_url = f"sqlite:///{DATA}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(DATA / "cookie_secret")
c.ConfigurableHTTPProxy.pid_file = str(DATA / "proxy.pid")

# A server for each student, as a process of this user.
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = str(DATA / "homes" / "{username}")
c.Spawner.default_url = "/lab/tree/notebooks/01_slope.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.JupyterHub.concurrent_spawn_limit = 10  # others wait: each start computes for seconds

# Limits. The kernel of a student who asks for more memory gets a MemoryError, and the others go on. `ulimit -d` counts
# what a process writes to, not the libraries that it shares; the number is in KiB.
LIMITED = f'ulimit -d {MEMORY * 1024} && exec "$0" "$@"'
c.Spawner.cmd = ["/bin/sh", "-c", LIMITED, f"{sys.prefix}/bin/jupyterhub-singleuser"]
c.Spawner.environment = dict.fromkeys(["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"], "1")
c.Spawner.env_keep = [
    "PATH",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "LANG",
    "LC_ALL",
    "JUPYTER_PATH",
    "NBGRAD_COMPILED",
]

# Without this setting, JupyterLab asks each student in the first minute whether it may fetch news.
PAGES = DATA / "config" / "labconfig" / "page_config.json"
PAGES.parent.mkdir(parents=True, exist_ok=True)
PAGES.write_text(json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}) + "\n")
OWN = os.environ.get("JUPYTER_CONFIG_PATH")
c.Spawner.environment["JUPYTER_CONFIG_PATH"] = os.pathsep.join([str(DATA / "config"), *([OWN] if OWN else [])])

# Kernels that share the memory of one process, which has imported torch and nbgrad: they take the place of python3.
if os.environ.get("HUB_WARM") == "1":
    words = ["install", "--prefix", str(DATA), "--name", "python3", "--preload", "sklearn.datasets"]
    subprocess.run([sys.executable, str(HERE / "warm_kernel.py"), *words], check=True)
    c.Spawner.environment["JUPYTER_PATH"] = str(DATA / "share" / "jupyter")

# An idle kernel ends after half an hour, an idle server after an hour. Notebooks are files, and stay.
c.Spawner.args = [
    "--MappingKernelManager.cull_idle_timeout=1800",
    "--MappingKernelManager.cull_interval=300",
    "--LabApp.extension_manager=readonly",
    "--ServerApp.terminals_enabled=False",
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


def give_lessons(spawner):
    """Copy the lessons into the home of a student who has none yet."""
    homes = DATA / "homes"
    if (homes / spawner.user.name).resolve().parent != homes.resolve():
        raise ValueError("the name of a student is the name of a folder, without / and no link to another place")
    folder = homes / spawner.user.name / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in sorted(LESSONS.glob("*.ipynb")):
        if not (folder / lesson.name).exists():
            shutil.copy(lesson, folder)


c.Spawner.pre_spawn_hook = give_lessons
