"""A process that has imported torch, and runs each program in a process that it forks: ``python -m`` starts it.

It reads requests from its standard input, a line each, and answers with a line when the program has ended.
"""

import gc
import json
import os
import pickle
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

NEEDED = ("IPython.core.completer", "IPython.core.interactiveshell", "torch.utils.data", "tqdm")
"""Modules that many programs import, or their cells."""


def main(recorded: bool, warm: str) -> None:
    """Import what the programs need, and then serve requests."""
    for module in (*NEEDED, *warm.split()):
        import_module(module)
    from tests.recorder.unnoticed import registry, seen, ways

    programs = registry.load()
    if recorded:
        import_module("nbgrad.magics")  # the process of a cell would import it each time
    objects = seen.Objects()
    gc.collect()
    gc.freeze()  # a collection in a process of a program copies no page of this one
    answers = os.fdopen(os.dup(1), "w")
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            _serve(programs[request["program"]], ways, objects, request)
        print(json.dumps(_wait(child, request["seconds"])), file=answers, flush=True)


def _serve(program: Any, ways: Any, objects: Any, request: dict[str, Any]) -> None:
    """Run one program in this process, which ends here."""
    code = 1
    try:
        os.setpgid(0, 0)
        os.chdir(request["folder"])
        seen = ways.observe(program, request["way"], objects, seed=request["seed"], dtype=request["dtype"])
        Path(f"{request['folder']}.pickle").write_bytes(pickle.dumps(seen))
        code = 0
    except BaseException:
        Path(f"{request['folder']}.failure").write_text(traceback.format_exc(), encoding="utf-8")
    finally:
        os._exit(code)


def _wait(child: int, seconds: float) -> str:
    """Wait for a process, and say how it ended."""
    end = time.monotonic() + seconds
    pause = 0.002
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return "ended" if status == 0 else f"ended with {os.waitstatus_to_exitcode(status)}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return f"was stopped after {seconds:g} s"


if __name__ == "__main__":
    main(sys.argv[1] == "recorded", sys.argv[2])
