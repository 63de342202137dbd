"""Run the cells of a notebook in a kernel of their own, in the environment of this process."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from nbformat import NotebookNode
from traitlets.config import Config


def run(notebook: NotebookNode, folder: Path, *, timeout: int, keeps_widgets: bool) -> None:
    """Run every cell and keep its outputs in the notebook.

    Args:
        notebook: in memory; it is changed.
        folder: the working directory of the kernel.
        timeout: for one cell, in seconds.
        keeps_widgets: whether the notebook gets the state of the widgets.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed that is not meant to.
    """
    with TemporaryDirectory(prefix="nbgrad-") as sockets:
        # Sockets in files: between the choice of a free port and its use, another process may take the port.
        files = Config({"KernelManager": {"transport": "ipc", "ip": str(Path(sockets, "kernel"))}})
        NotebookClient(
            notebook,
            timeout=timeout,
            kernel_name="python3",
            store_widget_state=keeps_widgets,
            record_timing=False,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--log-level=ERROR"],
            config=files,
        ).execute(env={**os.environ, "NBGRAD_SCRIPT": "0"})  # lessons, and pages with a script of their own
