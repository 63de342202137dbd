"""Describe what a program can see, as a dictionary from paths to texts: two of them are compared key by key."""

import asyncio
import dataclasses
import gc
import hashlib
import os
import random
import re
import signal
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

Seen = dict[str, str]

_DEEPEST = 60
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_NOTE = re.compile(r"^nbgrad: .*\n", re.MULTILINE)
"""The explanation that an error of a backward carries, in the text of its traceback too."""
_TIME = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b")
_CELL = re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>|/tmp/ipykernel_\d+/\d+\.py")


def normal(text: str) -> str:
    """A text without what differs from process to process: addresses, the names of cells, the folder of the run."""
    text = _CELL.sub("<cell>", _ADDRESS.sub("0x", text))
    text = _TIME.sub("<time>", text)
    text = re.sub(rf"(?<![\w.]){os.getpid()}(?![\w.])", "<pid>", text)
    return text.replace(str(Path.cwd()), "<folder>")


def describe(value: Any, path: str = "result") -> Seen:
    """All that a program can read from a value."""
    found: Seen = {}
    with torch._C.DisableTorchFunction(), torch.no_grad():
        _Walk(found).add(path, value)
    return found


class _Walk:
    """A walk through a value and all that is in it."""

    def __init__(self, found: Seen) -> None:
        self.found = found
        self.known: dict[int, str] = {}
        self.kept: list[Any] = []

    def add(self, path: str, value: Any) -> None:
        if value is None or isinstance(value, (bool, int, float, bytes, complex)):
            self.found[path] = f"{type(value).__name__} {value!r}"
        elif isinstance(value, str):
            self.found[path] = f"{type(value).__name__} {normal(_NOTE.sub('', value))!r}"
        elif id(value) in self.known:
            self.found[path] = f"the same object as {self.known[id(value)]}"
        else:
            self.known[id(value)] = path
            self.kept.append(value)
            self.found[path] = f"{type(value).__module__}.{type(value).__qualname__}"
            self._inside(path, value)

    def _inside(self, path: str, value: Any) -> None:  # noqa: C901, PLR0912
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, np.ndarray):
            self._array(path, value)
        elif isinstance(value, Mapping):
            for key, one in list(value.items()):
                self.add(f"{path}[{_key(key)}]", one)
        elif isinstance(value, (list, tuple)):
            for place, one in enumerate(value):
                self.add(f"{path}[{place}]", one)
        elif isinstance(value, (set, frozenset)):
            self.found[f"{path} elements"] = normal(repr(sorted(map(repr, value))))
        elif isinstance(value, torch.nn.Module):
            self._module(path, value)
        elif isinstance(value, torch.optim.Optimizer):
            self.add(f"{path}.state_dict()", value.state_dict())
        elif isinstance(value, BaseException):
            self._error(path, value)
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                self.add(f"{path}.{field.name}", getattr(value, field.name, None))
        else:
            self._other(path, value)

    def _other(self, path: str, value: Any) -> None:
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            self.found[path] += f" {getattr(value, '__module__', None)}.{value.__qualname__}"
        elif type(value).__repr__ is not object.__repr__:
            self.found[f"{path} repr"] = normal(repr(value))

    def _error(self, path: str, error: BaseException) -> None:
        self.found[f"{path} text"] = normal(str(error))
        notes = [note for note in getattr(error, "__notes__", []) if not _NOTE.match(f"{note}\n")]
        self.found[f"{path} notes"] = normal(repr(notes))
        frames = traceback.extract_tb(error.__traceback__)
        self.found[f"{path} frames"] = "\n".join(
            f"{normal(one.filename)}:{one.lineno} {one.name}" for one in frames if one.filename != __file__
        )
        for link in ("__cause__", "__context__"):
            self.add(f"{path}.{link}", getattr(error, link))

    def _module(self, path: str, module: torch.nn.Module) -> None:
        for name, one in module.named_modules():
            self.found[f"{path}.{name} class"] = f"{type(one).__qualname__} {one.training}"
            hooks = [len(part) for key, part in sorted(vars(one).items()) if key.endswith("_hooks")]
            self.found[f"{path}.{name} hooks"] = str(hooks)
            self.found[f"{path}.{name} attributes"] = str(sorted(vars(one)))
        for name, one in (*module.named_parameters(), *module.named_buffers()):
            self.add(f"{path}.{name}", one)

    def _array(self, path: str, array: np.ndarray) -> None:
        self.found[f"{path} array"] = f"{array.dtype} {array.shape} {array.strides} {array.flags.writeable}"
        if array.dtype == object:
            self.add(f"{path} elements", array.tolist())
        else:
            self.found[f"{path} values"] = _bits(array.reshape(-1)[:6].tolist(), array.tobytes())

    def _tensor(self, path: str, tensor: torch.Tensor) -> None:
        say = self.found.__setitem__
        for name in ("dtype", "device", "layout", "requires_grad", "is_leaf", "retains_grad", "output_nr", "names"):
            say(f"{path} {name}", _read(tensor, name))
        for name in ("is_conj", "is_neg", "is_inference", "is_contiguous", "storage_offset", "stride", "is_pinned"):
            say(f"{path} {name}", _read(tensor, name, call=True))
        say(f"{path} shape", _text(lambda: tuple(tensor.size())))
        if tensor.requires_grad:  # torch adds to a gradient in place or not, as it has one owner or several
            say(f"{path} version", "inference" if tensor.is_inference() else _read(tensor, "_version"))
        say(f"{path} dict", str(sorted(key for key in getattr(tensor, "__dict__", ()))))
        say(f"{path} hooks", str(len(getattr(tensor, "_backward_hooks", None) or ())))
        say(f"{path} graph", _text(lambda: _history(tensor.grad_fn)))
        say(f"{path} values", _text(lambda: _values(tensor)))
        if tensor.is_leaf or tensor.retains_grad:
            self.add(f"{path}.grad", tensor.grad)


def _key(key: Any) -> str:
    return normal(repr(key)) if isinstance(key, (str, int, float, bool, tuple)) else type(key).__qualname__


def _read(tensor: torch.Tensor, name: str, *, call: bool = False) -> str:
    return _text(lambda: getattr(tensor, name)() if call else getattr(tensor, name))


def _text(read: Any) -> str:
    try:
        return normal(str(read()))
    except Exception as error:  # some kinds of tensors do not have all attributes
        return f"{type(error).__name__}: {normal(str(error))[:80]}"


def _history(node: Any, most: int = 300) -> str:
    """The names of the nodes behind a tensor, in a fixed order."""
    names, waiting, known = [], [node], set()
    while waiting and len(names) < most:
        one = waiting.pop()
        if one is None or one in known:
            names.append("-")
            continue
        known.add(one)
        names.append(one.name())
        waiting += [before for before, _ in one.next_functions]
    return " ".join(names)


def _values(tensor: torch.Tensor) -> str:  # noqa: PLR0911
    """The numbers of a tensor, as a digest of their bits."""
    from torch._subclasses.fake_tensor import FakeTensor

    if isinstance(tensor, FakeTensor) or tensor.is_meta:
        return "none"
    if tensor.is_nested:
        return "; ".join(f"{tuple(one.shape)} {_values(one)}" for one in tensor.unbind())
    if hasattr(tensor, "get_mask"):
        return f"{_values(tensor.get_data())}; {_values(tensor.get_mask())}"
    if hasattr(tensor, "to_local"):
        return _values(tensor.to_local())
    if tensor.is_sparse:
        return f"{tensor.is_coalesced()} {_values(tensor._indices())} {_values(tensor._values())}"
    if tensor.layout in {torch.sparse_csr, torch.sparse_bsr}:
        return f"{_values(tensor.crow_indices())} {_values(tensor.col_indices())} {_values(tensor.values())}"
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return f"{_values(tensor.ccol_indices())} {_values(tensor.row_indices())} {_values(tensor.values())}"
    if tensor.is_quantized:
        return f"{tensor.qscheme()} {_values(tensor.int_repr())}"
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    plain = tensor.detach().as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous().reshape(-1)
    first = plain[:6].tolist()
    return _bits(first, plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")


def _bits(first: Any, data: bytes) -> str:
    return f"{first} {hashlib.sha1(data, usedforsecurity=False).hexdigest()[:12]}"


def switches() -> Seen:
    """The state of torch and Python that a program can read and that outlives a block."""
    threads = [re.sub(r"\d+", "N", one.name) for one in threading.enumerate()]
    threads = [one for one in threads if not one.startswith("QueueFeeder")]  # those of workers end when they can
    generator = torch.random.get_rng_state()
    drawn: Any = np.random.get_state(legacy=True)
    autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()
    return {
        "random of torch": _values(generator),
        "random of numpy": f"{drawn[1].tolist()[:3]} {drawn[2:]}",
        "random of Python": hashlib.sha1(repr(random.getstate()).encode(), usedforsecurity=False).hexdigest(),
        "grad mode": f"{torch.is_grad_enabled()} {torch.is_inference_mode_enabled()}",
        "anomaly": f"{torch.is_anomaly_enabled()} {torch.is_anomaly_check_nan_enabled()}",
        "default dtype": str(torch.get_default_dtype()),
        "default device": str(torch.get_default_device()),
        "autocast": str(autocast),
        "deterministic": f"{torch.are_deterministic_algorithms_enabled()} {torch.get_deterministic_debug_mode()}",
        "torch's threads": f"{torch.get_num_threads()}",
        "mode stacks": f"{torch._C._len_torch_function_stack()} {torch._C._len_torch_dispatch_stack()}",
        "function state": str(torch._C._get_torch_function_state()),
        "saved tensors": str(torch._C._autograd._top_saved_tensors_default_hooks(True) is not None),
        "multithreaded backward": str(torch.autograd.is_multithreading_enabled()),  # type: ignore[attr-defined]
        "print options": str(vars(torch._tensor_str.PRINT_OPTS)),
        "threads": str(sorted(threads)),
        "collector": f"{gc.isenabled()} {gc.get_threshold()} {len(gc.callbacks)}",
        "trace": f"{sys.gettrace()} {sys.getprofile()} {sys.getrecursionlimit()}",
        "hooks": str([getattr(one, "__module__", "") for one in (sys.excepthook, threading.excepthook)]),
        "filters": str([(*one[:1], one[2], one[4]) for one in warnings.filters]),
        "signals": str([normal(str(signal.getsignal(one))) for one in (signal.SIGINT, signal.SIGTERM)]),
        "folder": normal(str(Path.cwd())),
        "environment": str(sorted(os.environ)),
        "event loop": str(asyncio.get_event_loop_policy().__class__.__name__) if sys.version_info < (3, 14) else "",
    }


def files(folder: Path) -> Seen:
    """The files that are in a folder."""
    return {
        f"file {path.relative_to(folder)}": hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


_ROOTS = ("torch", "numpy", "warnings", "threading", "traceback", "copyreg", "copy", "builtins", "pickle", "linecache")


class Objects:
    """The attributes of torch's modules and classes, and of some of Python's, at one time."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.finders = list(sys.meta_path)
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _ROOTS and type(module) is types.ModuleType:
                self._keep(name, module)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # to look at some attributes of torch warns
            self._keep_classes()

    def _keep_classes(self) -> None:
        for name, (module, attributes) in list(self.kept.items()):
            for key, value in attributes.items():
                if isinstance(value, type) and getattr(value, "__module__", None) == module.__name__:
                    self._keep(f"{name}.{key}", value)

    def _keep(self, name: str, owner: Any) -> None:
        self.kept[name] = owner, dict(vars(owner))

    def changes(self) -> Seen:
        """The attributes that are another object now, and those that came or went."""
        found = {"import finders": str([one for one in sys.meta_path if one not in self.finders])}
        for name, (owner, before) in self.kept.items():
            now = vars(owner)
            if _same(before, now):
                continue
            for key in before.keys() | now.keys():
                if before.get(key, self) is not now.get(key, self) and _told(key, before.get(key), now.get(key)):
                    kind = "replaced" if key in before and key in now else "gone" if key in before else "new"
                    found[f"object {name}.{key}"] = kind
        return found


def _same(before: dict[str, Any], now: Any) -> bool:
    """Whether no attribute has changed: Python compares two dictionaries fast, by identity first."""
    try:
        return bool(now == before)
    except Exception:  # arrays and tensors that are equal to nothing
        return False


_OWN = frozenset(
    {"__warningregistry__", "__doc__", "__annotations__", "__abstractmethods__", "_abc_impl", "__slotnames__"}
)
_COMPILED = ("__compiled_fn", "___", "__builtins_dict", "__resume_at")
"""How the names begin that torch.compile gives to what it makes. They have random numbers."""


def _told(key: str, before: Any, now: Any) -> bool:
    """Whether a change of an attribute matters: counters and caches change by use, also in plain programs."""
    if key in _OWN or key.startswith(_COMPILED) or isinstance(now, types.ModuleType):
        return False
    if isinstance(before, staticmethod) and isinstance(now, staticmethod):
        return before.__func__ is not now.__func__
    counted = (int, float, str, bytes, tuple, bool, type(None))
    return not (isinstance(before, counted) and isinstance(now, counted))
