"""Read a program from a file by ``saving``. Nothing in the file is run, imported or evaluated.

Each function is looked up among those that a program may call. Then the steps are followed on tensors without numbers,
and must give the shapes and the types that the file says. So a file that was damaged or made to do
harm is refused, before a kernel gets sizes that do not fit. What a file asks for is bounded before it is done: the
depth of its JSON, the length and the numbers of an expression, the memory of a tensor, the parts that a step makes.
"""

import json
import keyword
import os
import re
import stat
from collections import namedtuple
from collections.abc import Callable
from math import inf, prod
from typing import Any

import torch

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.exports.expressions import SETTING, read_number
from nbgrad.core.symbolic.exports.functions import function_at
from nbgrad.core.symbolic.exports.saving import DEPTH, KEY, VERSION, depth
from nbgrad.core.symbolic.fake import MOST, Fakes, storage_of
from nbgrad.core.symbolic.ir import ProgramStep, RowCall, Shown, Value
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.places import SavedPlace
from nbgrad.core.symbolic.program import Program
from nbgrad.core.tensor.tensor import Tensor

_NAME = re.compile(r"[\w<>.\- ]{1,200}")
_PHASES = ("forward", "backward", "update")
_BYTES = 1 << 48
"""The most bytes that a tensor may have: more than any computer has."""

_COUNTED = dict.fromkeys(("chunk", "tensor_split", "hsplit", "vsplit", "dsplit"), MOST) | dict.fromkeys(
    ("diff", "tensordot", "combinations"), 64
)
"""Functions with an argument that says how many parts they make, or how often they go on; and the most it may be."""

_DEVICES = ("cpu", "meta", "cuda", "mps", "xpu")


def load(path: str | os.PathLike[str]) -> Program:
    """Read a program that ``Program.save`` wrote.

    Nothing in the file is run. The steps may call functions of torch that compute tensors from tensors, and rows of
    nbgrad's op table. The captured tensors are new ones, with the numbers of the file.

    Args:
        path: the file.

    Returns:
        The program. It runs, prints, is optimized and saved like the one that was saved. It has no gradient: save
        ``program.grad()`` to have that one too. Settings of optimizers are numbers in its ``settings``.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file holds no program, is damaged, or calls a function that a program may not call.
        ModuleNotFoundError: safetensors is not installed.
    """
    text, tensors = _read(path)
    try:
        if depth(text) > DEPTH:
            raise _Refused(f"its JSON is nested more than {DEPTH} deep")
        return _Reading(json.loads(text), tensors).program()
    except _Refused as error:
        raise ValueError(f"{os.fspath(path)} is refused: {error}") from None
    except (
        *(ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError),
        *(MemoryError, RuntimeError, StopIteration, SyntaxError, TypeError, ValueError),
    ) as error:
        raise ValueError(f"{os.fspath(path)} is damaged: {type(error).__name__}: {error}") from error


class _Refused(Exception):
    """A request of the file that is refused; the message says why."""


def _read(path: str | os.PathLike[str]) -> tuple[str, dict[str, torch.Tensor]]:
    """The JSON and the tensors of a file."""
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a program is read by the package safetensors, which is not installed. Run: pip install safetensors",
            name=error.name,
        ) from None
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  # raises an error about the path
        raise ValueError(f"{os.fspath(path)} is no file")
    with open(path, "rb"):  # noqa: PTH123  # as above
        pass
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
    except (SafetensorError, OverflowError) as error:
        raise ValueError(f"{os.fspath(path)} is no file of safetensors, or is damaged: {error}") from None
    if KEY not in metadata:
        raise ValueError(f"{os.fspath(path)} holds tensors and no program: it was not written by Program.save")
    return metadata[KEY], tensors


class _Reading:
    """A file on its way into a program."""

    def __init__(self, text: Any, tensors: dict[str, torch.Tensor]) -> None:
        if text["version"] != VERSION:
            raise _Refused(f"its format is {text['version']!r}, and this nbgrad reads format {VERSION}")
        self._text, self._tensors = text, tensors
        self._values: list[Value] = []
        self._settings = {_setting(name): float(value) for name, value in text["settings"].items()}
        self._rows: list[RowCall] = []

    def program(self) -> Program:
        """The program."""
        text = self._text
        inputs, captured = _count(text["inputs"]), text["captured"]
        kinds = ["input"] * inputs + ["captured"] * len(captured)
        names = set()
        for number, one in enumerate(text["values"]):
            value = _value(number, one, kinds[number] if number < len(kinds) else "result")
            if value.name in names:
                raise ValueError(f"two values have the name {value.name}")
            names.add(value.name)
            self._values.append(value)
        for value, one in zip(self._values, text["values"], strict=True):
            value.gradient_of = None if one["gradient_of"] is None else self._at(one["gradient_of"])
        held = self._values[inputs : inputs + len(captured)]
        if len(held) != len(captured):
            raise ValueError(f"{len(captured)} captured tensors are listed, and {len(held)} values")
        self._capture(held, captured)
        self._rows = [self._row(one) for one in text["rows"]]
        steps = [self._step(one) for one in text["steps"]]
        gradients = [
            (held[_count(place)].owner, None if at is None else self._at(at)) for place, at in text["gradients"]
        ]
        if any(owner is None for owner, _ in gradients):
            raise ValueError("a tensor that is not one of nbgrad's gets a gradient")
        read = {id(value) for step in steps for value in (*step.inputs(), *step.writes)}
        read |= {id(value) for value in leaves(self._part(text["outputs"]))} | {id(value) for _, value in gradients}
        program = Program(
            _matching(_NAME, text["name"]),
            self._values[:inputs],
            [value for value in held if id(value) in read],
            steps,
            self._part(text["outputs"]),
            gradients,
            self._part(text["arguments"]),
            settings=self._settings,
        ).check()
        _follow(program)
        return program

    def _at(self, number: Any) -> Value:
        return self._values[_count(number)]

    def _capture(self, values: list[Value], entries: list[dict[str, Any]]) -> None:
        """Give the captured values their data. Those of one entry in the file share their memory."""
        moved: dict[tuple[str, torch.device], torch.Tensor] = {}
        for value, entry in zip(values, entries, strict=True):
            data = self._tensors[entry["tensor"]]
            assert value.stride is not None
            if entry["offset"] is None:
                if tuple(data.shape) != value.shape or data.dtype is not value.dtype:
                    raise ValueError(f"{value.name} is {list(data.shape)} of {data.dtype}")
                if _extent(value.shape, value.stride) > data.numel():
                    raise ValueError(f"{value.name} has strides with gaps, {list(value.stride)}")
                made = torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=value.device)
                data = made.copy_(data)
            else:
                key = (entry["tensor"], value.device)
                if key not in moved:  # a copy: in the file it may lie where kernels for complex numbers crash
                    moved[key] = data.to(value.device, copy=True)
                data = moved[key].view(value.dtype).as_strided(value.shape, value.stride, _count(entry["offset"]))
            value.data = data
            if entry["owned"] is not None:
                value.owner = Tensor(data, bool(entry["owned"]))

    def _row(self, one: dict[str, Any]) -> RowCall:
        op = OPS.get(one["op"])
        if op is None:
            raise _Refused(f"it uses the row {one['op']!r}, which the op table of this nbgrad does not have")
        args, settings, results = (self._part(one[name]) for name in ("args", "settings", "results"))
        scope = tuple(_line(label) for label in one["scope"])
        return RowCall(op, args, settings, results, scope, _place(one["place"]), _count(one["steps"]))

    def _step(self, one: dict[str, Any]) -> ProgramStep:
        try:
            function = function_at(one["function"])
        except LookupError as error:
            raise _Refused(str(error.args[0])) from None
        kwargs = self._part(one["kwargs"])
        if type(kwargs) is not dict or not all(map(_is_name, kwargs)) or one["phase"] not in _PHASES:
            raise ValueError(f"the step {one['function']} has settings that no step can have")
        return ProgramStep(
            function,
            self._part(one["args"]),
            kwargs,
            self._part(one["result"]),
            tuple(self._at(number) for number in one["writes"]),
            bool(one["random"]),
            one["phase"],
            None if one["row"] is None else self._rows[_count(one["row"])],
            _place(one["place"]),
            tuple(_line(label) for label in one["scope"]),
            bool(one["checks"]),
        )

    def _part(self, given: Any) -> Any:
        if given is None or isinstance(given, bool | int | float | str):
            return given
        if isinstance(given, list):
            return [self._part(one) for one in given]
        kind = next(iter(given))
        return self._kinds[kind](self, given)

    def _number(self, given: dict[str, Any]) -> Number:
        return read_number(given["number"], self._settings)

    def _tuple(self, given: dict[str, Any]) -> Any:
        parts = [self._part(one) for one in given["tuple"]]
        if "fields" not in given:
            return tuple(parts)
        if not all(map(_is_name, (given["type"], *given["fields"]))):
            raise ValueError(f"{given['type']!r} is no name of a tuple")
        return namedtuple(given["type"], given["fields"])(*parts)  # its fields are data

    _kinds: dict[str, Callable[["_Reading", dict[str, Any]], Any]] = {  # noqa: RUF012  # never changed
        "value": lambda self, given: self._at(given["value"]),
        "number": _number,
        "float": lambda self, given: float(given["float"]),  # noqa: ARG005
        "complex": lambda self, given: complex(*map(float, given["complex"])),  # noqa: ARG005
        "ellipsis": lambda self, given: Ellipsis,  # noqa: ARG005
        "slice": lambda self, given: slice(*map(self._part, given["slice"])),
        "size": lambda self, given: torch.Size(map(_count, given["size"])),  # noqa: ARG005
        "dtype": lambda self, given: _torch(given["dtype"], torch.dtype),  # noqa: ARG005
        "layout": lambda self, given: _torch(given["layout"], torch.layout),  # noqa: ARG005
        "memory_format": lambda self, given: _torch(given["memory_format"], torch.memory_format),  # noqa: ARG005
        "device": lambda self, given: _device(given["device"]),  # noqa: ARG005
        "shown": lambda self, given: Shown(_line(given["shown"])),  # noqa: ARG005
        "tuple": _tuple,
        "dict": lambda self, given: {self._part(key): self._part(one) for key, one in given["dict"]},
    }


def _follow(program: Program) -> None:
    """Follow the steps on tensors without numbers, compare with the file, and see which values share memory.

    Raises:
        ValueError: a step gives something else than the file says.
    """
    fakes, known = Fakes(most=MOST + 100 * len(program.steps)), dict[int, Any]()
    for value in (*program.inputs, *program.captured):
        data = value.data
        known[id(value)] = (
            fakes.made(value.shape, value.stride, value.dtype, value.device) if data is None else fakes.of(data)
        )
        value.storage = storage_of(known[id(value)])
    for step in program.steps:
        args, kwargs = mapped(lambda one: known.get(id(one), one), (step.args, step.kwargs))
        most = _COUNTED.get(step.name, inf)
        if any(type(one) is int and one > most for one in (*args, *kwargs.values())):
            raise _Refused(f"the step {step.name} is to do more than {most} things")
        # A function that looks at numbers cannot run here: its ``like`` does.
        ran = fakes.run(getattr(step.function, "like", step.function), args, kwargs)
        _bind(step.result, ran.result, known, step.name)
        written = {id(one) for one in ran.writes}
        if written != {id(known[id(value)]) for value in step.writes} or ran.random != step.random:
            raise ValueError(f"the step {step.name} changes other memory than the file says")


def _bind(told: Any, made: Any, known: dict[int, Any], name: str) -> None:
    if isinstance(told, list | tuple):
        parts = list(made) if isinstance(made, list | tuple) else []
        if len(parts) != len(told):
            raise ValueError(f"the step {name} gives {len(parts)} results, and the file says {len(told)}")
        for one, other in zip(told, parts, strict=True):
            _bind(one, other, known, name)
    elif isinstance(told, Value):
        if not isinstance(made, torch.Tensor):
            raise ValueError(f"the step {name} gives no tensor for {told.name}")
        if (tuple(made.shape), made.dtype, made.device) != (told.shape, told.dtype, told.device):
            raise ValueError(
                f"the step {name} gives {list(made.shape)} of {made.dtype}, and the file says that {told.name} is "
                f"{list(told.shape)} of {told.dtype}"
            )
        if id(told) not in known:
            known[id(told)] = made
            told.storage = storage_of(made)


def _value(number: int, one: dict[str, Any], kind: Any) -> Value:
    if not _is_name(one["name"]):
        raise ValueError(f"{one['name']!r} is no name of a value")
    shape = tuple(map(_count, one["shape"]))
    stride = None if one["stride"] is None else tuple(map(_count, one["stride"]))
    if stride is not None and len(stride) != len(shape):
        raise ValueError(f"{one['name']} has the shape {list(shape)} and the strides {list(stride)}")
    dtype, device = _torch(one["dtype"], torch.dtype), _device(one["device"])
    if max(_extent(shape, stride), prod(shape)) * dtype.itemsize > _BYTES:
        raise ValueError(f"{one['name']} has the shape {list(shape)}: no memory is that large")
    return Value(number, shape, stride, dtype, device, -1, kind, one["name"])  # its memory: see _follow


def _count(given: Any) -> int:
    if type(given) is not int or given < 0:
        raise ValueError(f"{given!r} is no count")
    return given


def _extent(shape: tuple[int, ...], stride: tuple[int, ...] | None) -> int:
    """How many elements lie between the first and the last of a tensor, with both."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(shape, stride or (), strict=stride is not None))


def _device(name: Any) -> torch.device:
    """The device, if torch can use it here: to ask for another one may load code for it."""
    device = torch.device(_line(name))
    if device.type not in _DEVICES:
        raise _Refused(f"it has tensors on the device {name!r}")
    if device.type not in ("cpu", "meta") and not getattr(torch, device.type).is_available():
        raise _Refused(f"it has tensors on the device {name!r}, and torch finds none here")
    return device


def _torch(name: Any, kind: type) -> Any:
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, kind):
        raise ValueError(f"torch has no {kind.__name__} {name!r}")
    return found


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given.isidentifier() and not keyword.iskeyword(given)


def _matching(pattern: re.Pattern[str], given: Any) -> str:
    if not isinstance(given, str) or not pattern.fullmatch(given):
        raise ValueError(f"{given!r} is no name")
    return given


def _setting(name: Any) -> str:
    return _matching(SETTING, name)


def _line(given: Any) -> str:
    """A text that names a module or a line: it has no line break, for it may become a comment in code."""
    if not isinstance(given, str) or len(given.splitlines()) > 1 or not given.isprintable():
        raise ValueError(f"{given!r} is no line")
    return given


def _place(given: Any) -> SavedPlace | None:
    if given is None:
        return None
    return SavedPlace(_line(given["file"]), _count(given["line"]), _line(given["text"]), bool(given["cell"]))
