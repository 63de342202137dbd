"""``state_dict`` and back: a module's values by the paths that torch gives them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import torch

from nbgrad.core.engine.tensor_data import differentiable, dtype_name, overlaps
from nbgrad.core.engine.walk import reached
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parameter import Parameter, Uninitialized, is_lazy

EXTRA = "_extra_state"
"""The key of what ``get_extra_state`` returns, after the module's path."""


class IncompatibleKeys(NamedTuple):
    """The keys that ``load_state_dict`` could not match; both lists are empty when it was strict."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class SavingHook(NamedTuple):
    """A function of the user's that saving or loading runs.

    Attributes:
        run: the function.
        apart: registered by the older name of torch's: a hook after saving may then return another dict, and one
            before loading gets no module.
    """

    run: Callable[..., Any]
    apart: bool = False


class SavingHooks:
    """Functions of the user's that saving and loading a module run; made when the first is registered."""

    def __init__(self) -> None:
        self.saving: OrderedDict[int, SavingHook] = OrderedDict()
        self.saved: OrderedDict[int, SavingHook] = OrderedDict()
        self.loading: OrderedDict[int, SavingHook] = OrderedDict()
        self.loaded: OrderedDict[int, SavingHook] = OrderedDict()


class SavedModule(Protocol):
    """The parts of a module that this file uses."""

    _roles: dict[str, str]

    def _own(self, *roles: str) -> Iterator[tuple[str, Any]]: ...

    def _register(self, name: str, value: Any, role: str) -> None: ...

    def _hooks_of(self, kind: str) -> list[SavingHook]: ...

    def _loads_plainly(self) -> bool: ...

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None: ...


class Entry(NamedTuple):
    """A value of a module, and the value to load into it."""

    module: SavedModule
    name: str
    key: str
    value: Tensor
    loaded: Any


class Load:
    """One ``load_state_dict``: what fits, what does not, and the writing, which begins when everything fits.

    If code of the user's takes part (modules with their own way to load, hooks after loading, extra state), each value
    is written when its module is visited, in torch's order.

    Attributes:
        keys: those that are missing or unexpected.
    """

    def __init__(self, root: SavedModule, *, strict: bool = True, assign: bool) -> None:
        self.root, self.strict, self.assign = root, strict, assign
        self.keys = IncompatibleKeys([], [])
        self._problems: list[str] = []
        self._entries: list[Entry] = []
        self._tied: dict[int, Any] = {}
        self._waits = False  # whether values are written only after all of them were checked

    def visit(self, given: dict[str, Any], metadata: Mapping[str, Any]) -> None:
        """Let every module look for its values, parents first."""
        self._waits = all(module._loads_plainly() for module in _each(self.root))
        waiting: list[tuple[SavedModule, dict[str, Any] | None, str]] = [(self.root, given, "")]
        while waiting:
            module, values, prefix = waiting.pop()
            if values is None:  # all below it have been visited
                self._loaded(module)
                continue
            self._ask(module, values, prefix, dict(metadata.get(prefix[:-1], {})))
            parts: dict[str, dict[str, Any]] = {}
            for key, value in values.items():
                if key.startswith(prefix):
                    parts.setdefault(key[len(prefix) :].partition(".")[0], {})[key] = value
            waiting.append((module, None, prefix))
            below = [(child, parts.get(name, {}), f"{prefix}{name}.") for name, child in module._own("module")]
            waiting += reversed(below)

    def _ask(self, module: SavedModule, values: dict[str, Any], prefix: str, facts: dict[str, Any]) -> None:
        """Let one module look for its values."""
        if self.assign:
            facts["assign_to_params_buffers"] = True
        token = _loading.set(self)
        try:
            module._load_from_state_dict(values, prefix, facts, True, *self.keys, self._problems)
        finally:
            _loading.reset(token)

    def _loaded(self, module: SavedModule) -> None:
        for hook in module._hooks_of("loaded"):
            if hook.run(module, self.keys) is not None:
                raise RuntimeError("a load_state_dict post-hook returns None: it changes the lists of keys in place")

    def take(self, entry: Entry, problems: list[str]) -> None:
        """Load one value: now, or when everything has been looked at."""
        problem = self._misfit(entry)
        if problem is not None:
            problems.append(problem)
        elif self._waits:
            self._entries.append(entry)
        else:
            self._write(entry)

    def check(self) -> None:
        """Raise an error that lists everything that does not fit."""
        problems = list(self._problems)
        for kind, names in zip(("Unexpected", "Missing"), reversed(self.keys), strict=True):
            if self.strict and names:
                problems.insert(0, f"{kind} key(s) in state_dict: {', '.join(map(repr, names))}")
        if problems:
            name = type(self.root).__name__
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {name}:", *problems]))

    def write(self) -> None:
        """Put the values that waited in their places."""
        for entry in self._entries:
            self._write(entry)

    def _write(self, entry: Entry) -> None:
        module, name, _, value, loaded = entry
        if is_lazy(loaded):
            return  # both wait for their shape
        data = loaded.data.detach()
        if isinstance(value, Uninitialized):
            value.materialize(data.shape)
        if value.ndim == 0:
            data = data.reshape(())  # a scalar that very old files hold as one element
        if not self.assign:
            value.data.copy_(data)
        elif isinstance(value, Parameter):
            value.data = data
            value.grad = None  # it belonged to the old data; torch drops it too
        else:
            module._register(name, data, "buffer")

    def _misfit(self, entry: Entry) -> str | None:
        """Why a value cannot be loaded, if it cannot."""
        key, value, loaded = entry.key, entry.value, entry.loaded
        if not isinstance(loaded, Tensor | torch.Tensor):
            return f"expected a tensor for {key}, got {torch.typename(loaded)}"
        if is_lazy(loaded):
            waits = isinstance(value, Uninitialized)
            return None if waits else f"{key} in state_dict is uninitialized: call that model once before saving it"
        return _unlike(key, value, loaded.data) or self._unready(key, value, loaded.data)

    def _unready(self, key: str, value: Tensor, data: torch.Tensor) -> str | None:
        """Why ``data`` cannot be copied into ``value``, or cannot replace its memory; else None."""
        lazy = isinstance(value, Uninitialized)
        if not self.assign:
            if data.is_meta and not value.data.is_meta:
                return f"{key} in state_dict is on the device meta, without values"
            if not lazy and value.data.is_inference():
                return f"{key} was made in inference_mode(): its values cannot be changed"
            if not lazy and overlaps(value.data):
                return f"several elements of {key} share one number in memory, as after expand(): clone() it first"
        elif value.requires_grad and not differentiable(data.dtype):
            return f"{key} is a parameter that needs a gradient, but {dtype_name(data.dtype)} has no gradients"
        elif isinstance(value, Parameter):
            other = self._tied.setdefault(id(value), data)
            if other is not data and not (other.shape == data.shape and torch.equal(other, data)):
                return (
                    f"{key} is a parameter with several names. With assign=True it stays one parameter, but "
                    "state_dict has other values under another of its names"
                )
        return None


_loading: ContextVar[Load | None] = ContextVar("nbgrad_loading", default=None)
"""The ``load_state_dict`` that runs, for the modules that it visits."""


def current_load() -> Load | None:
    """The ``load_state_dict`` that runs, if one visits a module now."""
    return _loading.get()


def _each(root: SavedModule) -> list[SavedModule]:
    """Every module once, also those that an overridden ``named_modules`` or ``named_children`` hides."""
    return list(reached([root], lambda module: [child for _, child in module._own("module")]))


def detached_data(value: Tensor) -> torch.Tensor:
    """The data of a parameter or buffer, apart from torch's own autograd."""
    return value.data if isinstance(value, Uninitialized) else value.data.detach()


def _unlike(key: str, value: Tensor, data: torch.Tensor) -> str | None:
    """Why ``data`` do not fit ``value``: another kind of tensor, or another shape. None if they fit."""
    if data.layout is not torch.strided or data.is_quantized or data.is_nested:
        kind = "quantized" if data.is_quantized else "nested" if data.is_nested else str(data.layout)
        return f"{key} in state_dict is {kind}, the model has an ordinary tensor: load a dense one"
    if isinstance(value, Uninitialized):
        return None
    if data.shape != value.shape and not (value.ndim == 0 and tuple(data.shape) == (1,)):
        return f"size mismatch for {key}: got shape {tuple(data.shape)}, the model has {tuple(value.shape)}"
    return None
