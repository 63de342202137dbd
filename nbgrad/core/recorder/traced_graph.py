"""``TracedGraph``: the graph that torch's compiler has traced of a function, as data without a tensor and a module.

``torch.compile`` traces a function into an ``fx.Graph``, and gives it to a backend. The facts of its ops are taken
while the compiler still has it. They are worked out further when somebody looks at them: ``core.graph.compilation``.
"""

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.call_site import NOT_THE_USERS
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.scope import Kind
from nbgrad.core.recorder.functions import COMPILED, Unlisted


class GraphBreak(NamedTuple):
    """Where torch's compiler could not go on tracing, so that Python runs a part of the function.

    Attributes:
        reason: the compiler's, in one line.
        place: the user's line; None if the compiler does not say it.
    """

    reason: str
    place: Place | None


class TracedValue(NamedTuple):
    """Stands for a tensor of a traced graph: the inputs have the first numbers, and then come the ops."""

    number: int


class Length(NamedTuple):
    """Stands for a length that differs from call to call, as the expression that the compiler has for it."""

    expression: Any


class Words(NamedTuple):
    """Stands for any other argument, such as a part of the program that an op runs."""

    text: str


class TracedModule(NamedTuple):
    """The call of a module around an op.

    Attributes:
        key: tells the calls of a graph apart.
        path: the module, as the compiler names it: ``L['self'].layers.0``.
        kind: the texts of its class.
    """

    key: str
    path: str
    kind: Kind


class TracedInput(NamedTuple):
    """An input of a traced graph: ``shape`` has numbers and expressions; None for an input that is no tensor.

    ``name`` is the path of the parameter or the buffer that it is; empty for any other tensor.
    """

    name: str
    shape: tuple[Any, ...] | None
    length: Any = None


class TracedOp(NamedTuple):
    """An op of a traced graph.

    Attributes:
        function: the function of torch's; a text if only its name is known, and None for a constant of the graph.
        args, kwargs: its arguments, with a ``TracedValue`` for each tensor.
        shape, dtype, device: of its first result. The shape has numbers and expressions.
        several: whether it has several results.
        place: the user's line.
        modules: the calls around it, outermost first.
    """

    function: "Callable[..., Any] | str | None"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[Any, ...]
    dtype: torch.dtype
    device: torch.device
    several: bool
    place: Place | None
    modules: tuple[TracedModule, ...]


class TracedGraph(NamedTuple):
    """A graph that torch's compiler has traced.

    Attributes:
        backend: the name of the backend that compiled it.
        inputs, ops: in their order.
        outputs: the tensors that it returns.
        learned: how many of them need a gradient.
        ended: the break at which it ends; None if it ends with its function.
    """

    backend: str
    inputs: tuple[TracedInput, ...]
    ops: tuple[TracedOp, ...]
    outputs: tuple[TracedValue, ...]
    learned: int
    ended: GraphBreak | None


class CompiledOp(Unlisted):
    """A compiled graph as one op, which is how it runs.

    Args:
        traced: the graph.
        several: whether each of several outputs has a gradient.
    """

    def __init__(self, traced: TracedGraph, several: bool) -> None:
        super().__init__(COMPILED, len(traced.inputs), several)
        self.traced = traced
        if traced.inputs:
            self.inputs = tuple([one.name or f"input {at}" for at, one in enumerate(traced.inputs, 1)])

    def with_several(self, _count: int) -> "CompiledOp":
        """As ``Unlisted.with_several``."""
        return CompiledOp(self.traced, True)


def traced(module: Any, backend: str, ended: GraphBreak | None) -> TracedGraph:
    """The facts of ``module``, an ``fx.GraphModule`` of torch's compiler. No length becomes fixed by this."""
    return _GraphReader(module).read(backend, ended)


class _GraphReader:
    """Reads one graph.

    Attributes:
        known: what stands for the result of each node.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._inputs: list[TracedInput] = []
        self._ops: list[TracedOp] = []
        self._first = sum(node.op == "placeholder" for node in module.graph.nodes)
        self.known: dict[Any, Any] = {}

    def read(self, backend: str, ended: GraphBreak | None) -> TracedGraph:
        outputs: list[Any] = []
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "output":
                outputs = [one for one in node.all_input_nodes if isinstance(self.known.get(one), TracedValue)]
            else:
                self._call(node)
        learned = sum(any(one.requires_grad for one in _tensors(_example(one))) for one in outputs)
        values = dict.fromkeys([self.known[one] for one in outputs])
        return TracedGraph(backend, tuple(self._inputs), tuple(self._ops), tuple(values), learned, ended)

    def _placeholder(self, node: Any) -> None:
        example = _example(node)
        if isinstance(example, torch.Tensor):
            self.known[node] = TracedValue(len(self._inputs))
            self._inputs.append(TracedInput(_source_path(node), _shape(example)))
        else:
            self.known[node] = found = self._plain(example)
            length = found.expression if isinstance(found, Length) else None
            self._inputs.append(TracedInput("", None, length))

    def _call(self, node: Any) -> None:
        """Take over a node that is no input."""
        function, args = self._function(node)
        given, kwargs = self._plain(tuple(args)), self._plain(dict(node.kwargs))
        example = _example(node)
        changed = None if not (args and hasattr(args[0], "meta")) else args[0]
        if function is operator.getitem and self._is_several(given[0]):
            self.known[node] = given[0]
            return
        if node.target is operator.setitem:
            example = _example(args[0])
        tensors = _tensors(example)
        if not tensors:
            self.known[node] = Words(str(node.target)) if example is None else self._plain(example)
            return
        first = tensors[0]
        self._ops.append(
            TracedOp(
                function, given, kwargs, _shape(first), first.dtype, first.device,
                not isinstance(example, torch.Tensor), _place(node), _modules(node),
            )
        )  # fmt: skip
        self.known[node] = made = TracedValue(self._first + len(self._ops) - 1)
        if changed is not None and _changes(node.target):
            self.known[changed] = made

    def _is_several(self, value: Any) -> bool:
        at = value.number - self._first if isinstance(value, TracedValue) else -1
        return at >= 0 and self._ops[at].several

    def _function(self, node: Any) -> tuple[Any, tuple[Any, ...]]:
        """The function of torch's that a node calls, and its arguments in the order of this function."""
        args: tuple[Any, ...] = node.args
        target: Any = node.target
        if node.op == "get_attr":
            return None, ()
        if node.op == "call_module":
            return type(self._module.get_submodule(target)).__name__, args
        if node.op == "call_method":
            return getattr(torch.Tensor, target, target), args
        if target is operator.getitem and not self._is_several(self.known.get(args[0])):
            return torch.Tensor.__getitem__, args
        return _method(target, args)

    def _plain(self, value: Any) -> Any:
        """An argument without nodes, tensors and modules."""
        if hasattr(value, "all_input_nodes"):  # a node
            return self.known.get(value, Words(str(value)))
        if isinstance(value, tuple | list):
            return (tuple if isinstance(value, tuple) else list)(map(self._plain, value))
        if isinstance(value, dict):
            return {name: self._plain(one) for name, one in value.items()}
        if isinstance(value, slice):
            return slice(self._plain(value.start), self._plain(value.stop), self._plain(value.step))
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return Length(value.node.expr)
        return value if value is None or value is ... or isinstance(value, _SETTINGS) else Words(str(value))


def _method(function: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The method of a tensor for a ``function`` of Python's operators; any other function stays as it is."""
    name = str(getattr(function, "__name__", ""))
    if function is operator.getitem or getattr(operator, name, None) is not function:
        return function, args
    bare = name.strip("_")
    if len(args) == 2 and not isinstance(_example(args[0]), torch.Tensor):
        return getattr(torch.Tensor, f"__r{bare}__", bare), args[::-1]
    return getattr(torch.Tensor, f"__{bare}__", bare), args


_SETTINGS = (bool, int, float, complex, str, torch.dtype, torch.device, torch.layout, torch.memory_format)
"""The types of arguments that are settings, and hold nothing."""

_FRAMES = re.compile(r'^ *File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")
_ROOT = re.compile(r"^[LG]\['[^']*'\]")
_OWN = re.compile(r"_(?:modules|parameters|buffers)\['([^']*)'\]|\['?([^'\]]*)'?\]")


@lru_cache(4096)
def place_of(file: str, line: int, function: str) -> Place:
    """A line that the compiler names, as one object each time.

    The compiler calls the rest of a function after a break by a name of its own.
    """
    resumed = _RESUMED.fullmatch(function)
    name = resumed[1] if resumed is not None else function
    return Place.at(file, line, function="" if name.startswith("<") else name)


def path_in(source: str) -> tuple[str, str]:
    """A path as the compiler writes it, ``L['self']._modules['0'].weight``: its root, and the rest, ``0.weight``."""
    root = _ROOT.match(source)
    rest = source[root.end() :] if root is not None else source
    dotted = _OWN.sub(lambda found: f".{found[1] or found[2] or ''}", rest)
    return ("" if root is None else root[0]), ".".join(part for part in dotted.split(".") if part)


def _place(node: Any) -> Place | None:
    """The user's line of a node: the innermost one outside of torch."""
    frames = _FRAMES.findall(getattr(node, "stack_trace", None) or "")
    users = [one for one in frames if not one[0].startswith(NOT_THE_USERS)]
    if not users:
        return None
    file, line, function = users[-1]
    return place_of(file, int(line), function)


def _source_path(node: Any) -> str:
    """The path of the parameter or the buffer that an input is; empty for any other tensor."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    name = getattr(source, "name", "")
    text = str(name() if callable(name) else name)
    return path_in(text)[1] if "_parameters[" in text or "_buffers[" in text else ""


def _modules(node: Any) -> tuple[TracedModule, ...]:
    stack = node.meta.get("nn_module_stack") or {}
    return tuple([TracedModule(str(key), str(path), _kind(kind)) for key, (path, kind) in stack.items()])


def _kind(kind: Any) -> Kind:
    """The texts of a class, of which torch may know the name alone."""
    if isinstance(kind, type):
        return Kind(kind)
    return Kind.told(str(kind).rpartition(".")[2], "", "", ours=False, installed=False)


def _example(node: Any) -> Any:
    """The compiler's stand-in for the result of a node; anything else stays as it is."""
    return node.meta.get("example_value") if hasattr(node, "all_input_nodes") else node


def _tensors(example: Any) -> list[torch.Tensor]:
    if isinstance(example, torch.Tensor):
        return [example]
    return [one for one in example if isinstance(one, torch.Tensor)] if isinstance(example, tuple | list) else []


def _shape(example: torch.Tensor) -> tuple[Any, ...]:
    sizes: list[Any] = list(example.shape)
    return tuple([one if type(one) is int else one.node.expr for one in sizes])


def _changes(target: Any) -> bool:
    """Whether a function changes its first argument in place."""
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    inner = getattr(operator, name, None) is target and name.startswith("i") and name[1:] in vars(operator)
    return inner or target is operator.setitem or (name.endswith("_") and not name.endswith("__"))
