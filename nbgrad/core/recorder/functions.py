"""The facts about a torch function that a recorded program calls: the row of the table that describes it."""

from collections.abc import Callable
from copy import copy
from functools import cache
from inspect import CO_VARARGS, signature
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import get_testing_overrides

from nbgrad.core.dispatch.arguments import all_unchanging, bind, bound, is_outdated, unchanging
from nbgrad.core.dispatch.table import OPS, Op, row_of
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.node import OpInfo
from nbgrad.core.engine.state import current

ASKS = frozenset({"has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"})
"""The functions by which torch's functions in Python ask whether a mode or a subclass overrides them."""

_VIEWS = ("H", "T", "imag", "mH", "mT", "real")
"""The attributes of a tensor that are ops."""

_NOT_OPS = frozenset(
    {
        *("__contains__", "__deepcopy__", "__dir__", "__format__", "__hash__", "__index__", "__len__", "__reduce_ex__"),
        *("__repr__", "__set__", "__delete__", "_is_view", "apply_", "backward"),
        *("contiguous_format", "data_ptr", "dim", "element_size", "get_device", "is_complex", "is_contiguous"),
        *("is_floating_point", "is_inference", "is_set_to", "is_shared", "ndimension", "nelement", "numel"),
        *("register_hook", "register_post_accumulate_grad_hook", "requires_grad_", "retain_grad", "share_memory_"),
        *("size", "storage", "storage_offset", "stride", "type", "untyped_storage", "grad"),
    }
)


class Unlisted(OpInfo):
    """A torch op that the table does not have: only its name and its arguments are known."""

    def __init__(self, name: str, count: int, several: bool = False) -> None:
        self.name = name
        self.forward = getattr(torch, name, torch.Tensor)
        self.doc = _DOCS.get(name, "")
        self.formula = rf"\mathrm{{{name.replace('_', chr(92) + '_')}}}"
        self.inputs = ("input",) if count == 1 else tuple(f"input {position}" for position in range(1, count + 1))
        self.optional, self.arity = 0, count
        self.defaults, self.required, self.variadic = {}, frozenset(), None
        self.results, self.shown, self.live = ("out",), 1, (0,)
        self.many = self.several = several
        self.listed = None
        self.stretched, self.broadcasts, self.sums = frozenset(), frozenset(), {}
        self.differentiable, self.no_gradient = True, ()
        self.rules = {}

    def with_several(self, count: int) -> "Unlisted":
        """The same op with ``count`` inputs, where each of its outputs has a gradient."""
        return unlisted(self.name, count, True)


COMPILED = "CompiledFunction"
"""Torch's name for a function that ``torch.compile`` has compiled."""

_DOCS = {
    COMPILED: "A function that torch.compile has compiled: it ran as one op. --inside-compiled, or "
    "inside_compiled=True in nbgrad.record, shows the ops that the compiler traced in it."
}
"""The docstrings of ops of torch's that are not in the table."""


@cache
def unlisted(name: str, count: int, several: bool = False) -> Unlisted:
    """The op ``name`` of ``count`` tensors, which the table does not have; ``several``: each output has a gradient."""
    return Unlisted(name, count, several)


def with_several(op: OpInfo, count: int) -> Unlisted:
    """The op of torch's like ``op``, with ``count`` inputs, where each of several outputs has a gradient."""
    return op.with_several(count) if isinstance(op, Unlisted) else unlisted(op.name, count, True)


PLAIN, OP, INNER, CUT, READ = 0, 1, 2, 3, 4

_TENSOR = object()
"""Stands for any tensor among the arguments of a ``CallForm``."""

_FORMS = 8
"""The largest number of forms that are kept for a function."""


class CallForm:
    """One form of the calls of a function: some arguments are tensors, and all others have certain values.

    A loop calls a function in few forms, so their settings are worked out once.

    Attributes:
        given: the arguments, with ``_TENSOR`` for each tensor.
        count: the number of arguments by position, which come first.
        names: the names of the others.
        op, settings: the row, and all its settings.
        places: for each input, its place among the arguments; -1 for an input that is no tensor.
        others: for each input that is no tensor, its value.
    """

    __slots__ = ("count", "given", "names", "op", "others", "places", "settings")

    given: tuple[Any, ...]
    count: int
    names: tuple[str, ...]
    op: OpInfo
    settings: dict[str, Any]
    places: list[int]
    others: list[Any]

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call with these arguments has this form."""
        at = self.count
        if len(args) != at or len(kwargs) != len(self.names):
            return False
        given = self.given
        for place in range(len(args)):
            if not _same(given[place], args[place]):
                return False
        for name, value in kwargs.items():
            if name != self.names[at - self.count] or not _same(given[at], value):
                return False
            at += 1
        return True

    def inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The inputs among the arguments of a call that has this form."""
        named: list[Any] = list(kwargs.values()) if kwargs else []
        found: list[Any] = []
        for position in range(len(self.places)):
            at: int = self.places[position]
            if at < 0:
                found.append(self.others[position])
            else:
                found.append(args[at] if at < self.count else named[at - self.count])
        return tuple(found)


def _same(known: Any, value: Any) -> bool:
    """Whether ``value`` is ``known``, an argument of a ``CallForm``, or is shown like it: a number, a text, a tuple."""
    if isinstance(value, Tensor):
        return known is _TENSOR
    if known is value:
        return True
    kind = type(value)
    if kind is not type(known):
        return False
    if kind is tuple:
        return _all_same(known, value)
    # 0.0 equals -0.0
    return (kind is int or kind is str or (kind is float and value != 0)) and bool(known == value)


def _all_same(known: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    if len(known) != len(values):
        return False
    for at in range(len(known)):  # noqa: SIM110  # compiled, a generator costs more than the loop
        if not _same(known[at], values[at]):
            return False
    return True


def _form(
    args: tuple[Any, ...], kwargs: dict[str, Any], op: OpInfo, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> CallForm | None:
    """The form of a call of ``op``; None if an argument may change, one tensor is given twice, or ``bind`` warns."""
    if is_outdated(op, args):
        return None
    given: list[Any] = []
    tensors: dict[int, int] = {}  # their places, by Python's ``id()``
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            if id(value) in tensors:
                return None  # nothing would say which of them an input is
            tensors[id(value)] = len(given)
        elif not unchanging(value):
            return None
        given.append(_TENSOR if isinstance(value, Tensor) else value)
    places = [tensors.get(id(one), -1) for one in inputs]
    others = [None if isinstance(one, Tensor) else one for one in inputs]
    for one, at in zip(inputs, places, strict=True):
        if at < 0 and not unchanging(one):
            return None  # a tensor that the row has made of an argument
    if not all_unchanging(settings):
        return None
    made = CallForm.__new__(CallForm)
    made.given, made.count, made.names = tuple(given), len(args), tuple(kwargs)
    made.op, made.settings, made.places, made.others = op, settings, places, others
    return made


class Called:
    """The facts about a torch function.

    Attributes:
        kind: ``PLAIN`` for one that is no op; ``OP``; or ``INNER`` for one that torch has written in Python and that is
            not in the table: the ops inside it are recorded; ``CUT`` for one that gives a tensor without its history;
            ``READ`` for one that gives its values.
        name: its name in the picture.
        row: the row of the table; None where there is none.
        swapped: whether the operands stand in the other order, as those of ``2 - x`` do.
        forms: forms in which it was called. One that is used moves forward, and a new one takes the last place.
        names: the row's names of the arguments, in torch's order; None if that is the row's own order.
        in_order: whether the arguments are those of the row, one by one.
        assigns: whether it is ``x[index] = value``.
        changes: whether it changes its first argument in place.
    """

    __slots__ = (*("assigns", "changes", "forms", "in_order", "kind", "name", "names", "row", "swapped"),)

    def __init__(
        self,
        kind: int,
        name: str = "",
        row: Op | None = None,
        *,
        swapped: bool = False,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.row = row
        self.swapped = swapped
        self.names = names
        self.forms: list[CallForm] = []
        self.assigns = name == "setitem"
        self.changes = self.assigns or name.endswith("_")
        self.in_order = row is not None and row.arity >= 0 and not swapped and names is None and not self.assigns

    def arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[OpInfo, tuple[Any, ...], dict[str, Any]]:
        """The row that runs, its inputs and all its settings; if no row describes it, the tensors are the inputs."""
        row = self.row
        if row is not None and self.in_order and not kwargs:
            missing = row.arity - len(args)
            if bound(row, missing, kwargs):
                return row, (*args, *(None,) * missing) if missing else args, row.defaults
        form: CallForm | None
        forms = self.forms
        for at in range(len(forms)):
            form = forms[at]
            if form.fits(args, kwargs):
                if at:
                    forms[at], forms[at - 1] = forms[at - 1], form
                return form.op, form.inputs(args, kwargs), form.settings
        op, inputs, own = self._bound(args, kwargs)
        settings = {**op.defaults, **own} if own else op.defaults
        form = _form(args, kwargs, op, inputs, settings)
        if form is not None:
            forms[_FORMS - 1 :] = [form]
        return op, inputs, settings

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[OpInfo, tuple[Any, ...], dict[str, Any]]:
        """The same for a call whose form is not known, but only the settings that were given."""
        row = self.row
        if row is not None:
            try:
                if self.assigns:
                    return row, (args[0], args[2]), {"index": args[1]}
                if self.names is not None:
                    return self._named(row, self.names, args, kwargs)
                given, settings, op = bind(row, args[::-1] if self.swapped else args, dict(kwargs))
                return op, given, settings
            except (TypeError, NotImplementedError, IndexError, ValueError, AttributeError):
                pass  # a form that torch alone takes
        tensors = tuple(tensors_in((args, kwargs)))
        return unlisted(self.name, max(1, len(tensors))), tensors, settings_of(self.name, args, kwargs)

    def _named(
        self, row: Op, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[OpInfo, tuple[Any, ...], dict[str, Any]]:
        """The same with arguments by name."""
        count = len(args)
        unnamed = ("",) * (count - len(names))
        places = _places(row, (*names[:count], *unnamed, *kwargs))
        more: list[Any] = list(kwargs.values()) if kwargs else []
        inputs: list[Any] = []
        needed = row.arity - row.optional
        for at in places[0]:
            value = None if at < 0 else args[at] if at < count else more[at - count]
            if value is None and len(inputs) < needed:
                raise TypeError("an input is missing")
            inputs.append(value)
        settings: dict[str, Any] = {}
        for name, at in places[1]:
            settings[name] = args[at] if at < count else more[at - count]
        return row, tuple(inputs), settings


def settings_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments without tensors of a call of torch's function ``name``, by torch's names."""
    names = next((_names(form) for form in _forms(name) if _takes(form, args, kwargs)), _listed_names(name))
    unnamed = [f"{_UNNAMED}{at + 1}" for at in range(len(names), len(args))]
    given = {**dict(zip((*names, *unnamed), args, strict=False)), **kwargs}
    return {key: value for key, value in given.items() if not tensors_in(value)}


def arguments_of(name: str, tensors: list[Any], settings: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of torch's function ``name``, by position and by name, from what a record has of it."""
    left, more, args = dict(settings), list(tensors), list[Any]()
    form = next((form for form in _forms(name) if settings.keys() <= set(_names(form))), None)
    if form is not None:
        for one in form:
            if not one.positional or (one.name not in left and not (one.tensor and more)):
                break
            args.append(left.pop(one.name) if one.name in left else more.pop(0))
        return [*args, *more], left
    names = _listed_names(name)
    last = max([int(key.removeprefix(_UNNAMED)) for key in settings if key.startswith(_UNNAMED)], default=0)
    for at in range(last):
        key = names[at] if at < len(names) else f"{_UNNAMED}{at + 1}"
        args.append(left.pop(key) if key in left else more.pop(0))
    return [*args, *more], left


_UNNAMED = "argument "
"""An argument for which torch has no name is called "argument 6" after its place."""


class _SchemaArgument(NamedTuple):
    """An argument of a form of one of torch's functions: whether it is a tensor or a list of them, and has a place."""

    name: str
    tensor: bool
    tensors: bool
    positional: bool


def _names(form: tuple[_SchemaArgument, ...]) -> tuple[str, ...]:
    return tuple([one.name for one in form])


def _takes(form: tuple[_SchemaArgument, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this form takes these arguments, as far as it depends on which of them are tensors."""
    if len(args) > len(form) or not kwargs.keys() <= {one.name for one in form[len(args) :]}:
        return False
    for one, value in zip(form, args, strict=False):
        if isinstance(value, Tensor):
            fits = one.tensor
        elif tensors_in(value):
            fits = one.tensors
        else:
            fits = value is None or not (one.tensor or (one.tensors and value != []))
        if not fits:
            return False
    return True


@cache
def _forms(name: str) -> tuple[tuple[_SchemaArgument, ...], ...]:
    """The forms of a function of torch's that is written in C; none for one in Python, which has a signature."""
    if isinstance(_listed(name)[0], FunctionType):
        return ()
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return tuple([tuple(map(_taken, schema.arguments)) for schema in schemas])


def _taken(argument: Any) -> _SchemaArgument:
    kind, name = str(argument.type), argument.name
    tensors, many = "Tensor" in kind, "List" in kind
    return _SchemaArgument(
        "input" if name == "self" else name, tensors and not many, tensors and many, not argument.kwarg_only
    )


@cache
def _listed(name: str) -> tuple[Any, Any]:
    """The function ``name`` in torch's table for overriding functions, and what stands for it there."""
    for function, stand_in in get_testing_overrides().items():
        if getattr(function, "__name__", "") == name:
            return function, stand_in
    return None, None


@cache
def _listed_names(name: str) -> tuple[str, ...]:
    """The names of the arguments of a function by its signature, or by torch's table; empty if it is not listed there.

    Some names of the table are those of another form of the function, or misspelt.
    """
    function, stand_in = _listed(name)
    whole = function if isinstance(function, FunctionType) else stand_in
    return () if whole is None else tuple(signature(whole).parameters)


def _places(row: Op, given: tuple[str, ...]) -> tuple[list[int], list[tuple[str, int]]]:
    """The places of the inputs and settings of a row among the arguments ``given`` by name; -1 for a missing one.

    Returns:
        The places of the inputs, and those of the settings with their names.
    """
    others = row.other_names()
    at = {others.get(name, name): place for place, name in enumerate(given)}
    return [at.get(name, -1) for name in row.inputs], [(name, at[name]) for name in row.defaults if name in at]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in ``value``, a tensor, a list, a tuple or a dict, at any depth."""
    if isinstance(value, Tensor):
        return [value]
    found: list[torch.Tensor] = []
    if isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            if isinstance(one, Tensor):
                found.append(one)
            elif isinstance(one, list | tuple | dict):
                found += tensors_in(one)
    return found


KNOWN: dict[Any, Called] = {}
"""The facts about the functions that were called before, by function."""


def called(function: Callable[..., Any]) -> Called:
    """The facts about ``function``."""
    try:
        known = _known(function)
    except Exception as error:
        if not taken(current().observers, error, "a call of torch's"):
            raise
        return _PLAIN
    if len(KNOWN) < 4096:
        KNOWN[function] = known
    return known


def _known(function: Any) -> Called:
    name = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":  # an attribute of a tensor
        attribute = getattr(getattr(function, "__self__", None), "__name__", "")
        if attribute == "data":
            return Called(CUT, ".data")
        return Called(OP, attribute, OPS.get(attribute)) if attribute in _VIEWS else _PLAIN
    if name in _NOT_OPS:
        return _PLAIN
    if name in _ENDS:
        return _ENDS[name]
    bare, swapped = _bare(name)
    row = _row(bare)
    if row is None and isinstance(function, FunctionType) and _asks(function):
        return Called(INNER, bare)
    return Called(OP, bare, row, swapped=swapped, names=None if row is None else _other_order(function, bare, row))


def _other_order(function: Any, name: str, row: Op) -> tuple[str, ...] | None:
    """The row's names of the arguments that torch's function takes; None where the inputs come first, as in the row."""
    if row.listed:
        return None
    others = {**row.other_names(), "self": row.inputs[0]}
    wanted = list(row.inputs)
    own = {*wanted, *row.defaults}
    orders = [[one if one in own else others.get(one, one) for one in names] for names in _orders(function, name)]
    takes_more = isinstance(function, FunctionType) and orders and not own.issuperset(orders[0])
    if not orders or (not takes_more and any(order[: len(wanted)] == wanted for order in orders)):
        return None
    needed = set(wanted[: len(wanted) - row.optional])
    found = next((order for order in orders if needed <= set(order)), None)
    if found is None and any(kinds == ["Tensor"] * len(wanted) for kinds in _kinds(name)):
        return None  # the same under other names
    return tuple(found or ())


def _kinds(name: str) -> list[list[str]]:
    """The types of the arguments of torch's op ``name``, in each of its forms."""
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return [[str(argument.type) for argument in schema.arguments] for schema in schemas]


def _orders(function: Any, name: str) -> list[list[str]]:
    """The names of the arguments of ``function``, in each of its forms."""
    if isinstance(function, FunctionType) and not function.__code__.co_flags & CO_VARARGS:
        code = function.__code__
        return [list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])]
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    return [[argument.name for argument in schema.arguments] for schema in schemas]


def _bare(name: str) -> tuple[str, bool]:
    """The name of the op that ``name`` calls, and whether its operands are swapped."""
    if not (name.startswith("__") and name.endswith("__")):
        return name, False
    if (row := row_of(name)) is not None:
        return row.name, False
    bare = name[2:-2]
    for prefix in ("r", "i"):
        if bare.startswith(prefix) and (row := row_of(f"__{bare[1:]}__")) is not None:
            return (row.name, True) if prefix == "r" else (f"{row.name}_", False)
    return bare, False


def _row(name: str) -> Op | None:
    """The row of ``name``; for an in-place function that of its twin. A row of another name is copied as ``name``."""
    if name in OPS:
        return OPS[name]
    if name.endswith("_") and (row := _row(name[:-1])) is not None:
        return row._in_place.row if row._in_place is not None and row.name == name[:-1] else _renamed(row, name)
    other = row_of(name) or OPS.get(f"{name}_with_indices")
    return None if other is None else _renamed(other, name)


def _renamed(row: Op, name: str) -> Op:
    made = copy(row)
    made.name = name
    return made


def _asks(function: FunctionType) -> bool:
    """Whether it is a function of torch's in Python that checks for overrides."""
    if getattr(torch.Tensor, function.__name__, None) is function:
        return False  # it calls the C++ method of the same name, which torch reports to a mode as this function
    return function.__module__.partition(".")[0] == "torch" and not ASKS.isdisjoint(function.__code__.co_names)


_PLAIN = Called(PLAIN)
_ENDS = {
    "__bool__": Called(READ, "bool()"),
    "__float__": Called(READ, "float()"),
    "__int__": Called(READ, "int()"),
    "detach": Called(CUT, "detach()"),
    "detach_": Called(CUT, "detach_()"),
    "item": Called(READ, "item()"),
    "numpy": Called(READ, "numpy()"),
    "tolist": Called(READ, "tolist()"),
}
"""Functions whose result has no history, under the names that findings give them."""
