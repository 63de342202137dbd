"""A program that prints all that Python's start gives it, before and after it imports torch."""

import asyncio
import atexit
import builtins
import decimal
import faulthandler
import gc
import importlib
import json
import locale
import logging
import multiprocessing
import os
import re
import resource
import signal
import sys
import threading
import time
import tracemalloc
import warnings

FOUND = {}


def note(name, value):
    FOUND[name] = re.sub(r" at 0x\w+", "", repr(value))


def stream(one):
    names = ("encoding", "errors", "line_buffering", "write_through", "newlines", "mode", "name")
    return {name: getattr(one, name) for name in names}, one.fileno(), type(one.write).__name__


def python(when):  # noqa: PLR0915  # each line asks one question
    def here(name, value):
        note(f"{when}: {name}", value)

    here("signals", {str(one): str(signal.getsignal(one)) for one in signal.valid_signals()})
    here("mask", signal.pthread_sigmask(signal.SIG_BLOCK, []))
    here("wakeup", signal.set_wakeup_fd(-1))
    here("alarm", signal.getitimer(signal.ITIMER_REAL))
    here("filters", warnings.filters)
    here("warnoptions", sys.warnoptions)
    here("showwarning", (warnings.showwarning.__module__, warnings.formatwarning.__module__))
    here(
        "hooks",
        [
            getattr(sys, one) is getattr(sys, f"__{one}__")
            for one in ("excepthook", "displayhook", "breakpointhook", "unraisablehook")
        ],
    )
    here("threading hooks", (threading.excepthook.__module__, threading.gettrace(), threading.getprofile()))
    here("threads", [one.name for one in threading.enumerate()])
    here("stack size", threading.stack_size())
    here("tracing", (sys.gettrace(), sys.getprofile(), tracemalloc.is_tracing(), faulthandler.is_enabled()))
    here("argv", sys.argv)
    here("path", sys.path)
    here("flags", sys.flags)
    here("xoptions", sys._xoptions)
    here("prefix", (sys.prefix, sys.exec_prefix, sys.executable, sys.pycache_prefix, sys.dont_write_bytecode))
    here("recursion limit", sys.getrecursionlimit())
    here("switch interval", sys.getswitchinterval())
    here("digits", sys.get_int_max_str_digits())
    here("async hooks", sys.get_asyncgen_hooks())
    here("locale", (locale.setlocale(locale.LC_ALL), locale.getpreferredencoding(), locale.localeconv()))
    here("time zone", (time.tzname, time.timezone))
    here("streams", [stream(one) for one in (sys.stdin, sys.stdout, sys.stderr)])
    here("terminals", [one.isatty() for one in (sys.stdin, sys.stdout, sys.stderr)])
    here("own streams", [getattr(sys, one) is getattr(sys, f"__{one}__") for one in ("stdin", "stdout", "stderr")])
    here("inheritable", [os.get_inheritable(one) for one in range(3)])
    here("folder", os.getcwd())  # noqa: PTH109  # as Python gives it
    here("umask", os.umask(os.umask(0)))
    here(
        "limits", {one: resource.getrlimit(getattr(resource, one)) for one in dir(resource) if one.startswith("RLIMIT")}
    )
    here("affinity", os.sched_getaffinity(0))
    here("niceness", os.nice(0))
    here("start method", multiprocessing.get_start_method(allow_none=True))
    here("event loop policy", type(asyncio.get_event_loop_policy()))
    here("collector", (gc.isenabled(), gc.get_threshold(), gc.get_debug(), gc.get_freeze_count(), gc.callbacks))
    here("builtins", sorted(vars(builtins)))
    here("decimal", decimal.getcontext())
    here(
        "logging",
        (
            logging.root.level,
            logging.root.handlers,
            logging.root.disabled,
            logging.lastResort,
            logging.raiseExceptions,
            logging.getLoggerClass(),
            logging.getLogRecordFactory(),
        ),
    )
    here("hash seed", hash("of this text"))
    here("path hooks", sys.path_hooks)
    here("importing", (importlib.__import__ is builtins.__import__, builtins.__import__.__module__))
    here("variables", sorted(globals().keys() - {"__warningregistry__"}))
    here(
        "main",
        {
            one: globals()[one]
            for one in sorted(globals())
            if one.startswith("__") and one not in ("__builtins__", "__warningregistry__")
        },
    )


def of_torch():
    import torch

    cuda = torch.cuda
    settings = [
        name for name in dir(torch) if name.startswith(("get_", "is_", "are_")) and callable(getattr(torch, name))
    ]
    for name in settings:
        try:
            value = getattr(torch, name)()
        except Exception:
            continue
        if name != "get_rng_state":
            note(f"torch.{name}()", value)
    note("torch's environment", dict(os.environ))
    note("devices", (cuda.is_initialized(), cuda._initialized, cuda._is_in_bad_fork()))
    note(
        "backends",
        [
            torch.backends.cudnn.benchmark,
            torch.backends.cudnn.enabled,
            torch.backends.cudnn.deterministic,
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.mkldnn.enabled,
            torch.backends.opt_einsum.enabled,
        ],
    )
    note("generator", torch.manual_seed(3).get_state().sum().item())
    note("first numbers", torch.randn(5).tolist())
    note("printing", vars(torch._tensor_str.PRINT_OPTS))
    note("sharing", torch.multiprocessing.get_sharing_strategy())
    note("detecting", (torch.is_anomaly_enabled(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
    note("modules of torch", sorted(one for one in sys.modules if one.partition(".")[0] in ("torch", "numpy")))
    import numpy

    note("numpy", (numpy.geterr(), numpy.get_printoptions()))
    note("numpy's seed", numpy.random.RandomState(3).rand(2).tolist())


if __name__ == "__main__":
    note("torch is there", [one for one in ("torch", "numpy", "nbgrad.core", "IPython") if one in sys.modules])
    python("before")
    if "errors" in sys.argv:
        warnings.simplefilter("error")
    if "threads" in sys.argv:
        os.environ["OMP_NUM_THREADS"] = "1"
        os.environ["CUDA_VISIBLE_DEVICES"] = "7"
    of_torch()
    python("after")
    atexit.register(print, "first registered, last called")
    atexit.register(print, "second registered, first called")
    print(json.dumps(FOUND, indent=1, sort_keys=True))
    sys.exit(4)
