"""``state_dict`` and back: a module's values by the paths that torch gives them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.engine.tensor_data import differentiable, dtype_name, overlaps
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.registry import Tree
from nbgrad.nn.module.torch_dicts import HookFunctions
from nbgrad.nn.parameter import Parameter, Uninitialized, is_lazy

EXTRA = "_extra_state"
"""The key of what ``get_extra_state`` returns, after the module's path."""


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` could not match; both empty when it was strict."""

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


class Saving(Tree):
    """Saving and loading."""

    _version: int = 1
    _saving_hooks: SavingHooks | None = None

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Every parameter and persistent buffer by its path, as torch tensors that share the module's memory.

        The keys are torch's: ``torch.save`` takes it, and a ``torch.nn`` model of the same structure loads it.

        Args:
            destination: a dict to add them to, instead of a new one.
            prefix: what the keys begin with.
            keep_vars: give the parameters and buffers themselves, not their data.
        """
        saved: Any = destination
        if saved is None:
            saved = OrderedDict()
            saved._metadata = OrderedDict()
        facts = {"version": self._version}
        if hasattr(saved, "_metadata"):
            saved._metadata[prefix[:-1]] = facts
        for hook in self._hooks_of("saving"):
            hook.run(self, prefix, keep_vars)
        self._save_to_state_dict(saved, prefix, keep_vars)
        for name, child in self._own("module"):
            child.state_dict(destination=saved, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of("saved"):
            returned = hook.run(self, saved, prefix, facts)
            if returned is not None and not hook.apart:
                raise RuntimeError("state_dict post-hook must return None")
            saved = saved if returned is None else returned
        return saved  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters, persistent buffers and extra state into ``destination``.

        ``state_dict`` calls it for each module: a subclass that saves in another way overrides it.
        """
        for role in ("parameter", "buffer"):
            for name, value in self._own(role):
                destination[prefix + name] = value if keep_vars else _data(value)
        if self._has_extra_state():
            destination[prefix + EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, which stay the same objects in the same memory.

        Args:
            state_dict: torch tensors or ``Tensor`` objects by path, from this class's or torch's ``state_dict``.
            strict: raise if a key is missing or unexpected, instead of reporting it.
            assign: take the memory, element type and device of the values given, instead of copying them. Parameters
                stay the same objects then too, without their gradients, and tied ones stay tied.

        Raises:
            RuntimeError: keys or shapes do not match; it lists them all, and nothing has been loaded.
            TypeError: ``state_dict`` is no dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a dict of tensors, got {kind_of(state_dict)}")
        given: dict[str, Any] = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None)
        if metadata is not None:
            given._metadata = metadata  # type: ignore[attr-defined]  # as torch keeps it
        load = _Load(self, strict=strict, assign=assign)
        with load.undone_by_errors():
            load.visit(given, metadata or {})
            load.check()
            load.write()
        return load.keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own values from ``state_dict``, and add what does not fit to the lists.

        ``load_state_dict`` calls it for each module: a subclass that loads in another way overrides it.

        Args:
            state_dict: values by path; what is changed in it is loaded, and seen by the modules below this one.
            prefix: what the paths of this module's values begin with.
            local_metadata: what ``state_dict`` says of this module, as its ``version``.
            strict: whether to report keys that are missing or unexpected.
            missing_keys: a list to add keys to that are not in ``state_dict``.
            unexpected_keys: a list to add keys to that this module does not know.
            error_msgs: a list to add texts to about values that do not fit.
        """
        for hook in self._hooks_of("loading"):
            given = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook.run(*given) if hook.apart else hook.run(self, *given)
        load = _loading.get() or _Load(self, assign=local_metadata.get("assign_to_params_buffers", False))
        known: dict[str, Any] = {name: value for role in ("parameter", "buffer") for name, value in self._own(role)}
        optional = self._may_be_missing(local_metadata.get("version"))
        if self._has_extra_state():
            known[EXTRA] = None
        for name, value in known.items():
            if (key := prefix + name) not in state_dict:
                if strict and name not in optional:
                    missing_keys.append(key)
            elif name == EXTRA:
                self.set_extra_state(state_dict[key])
            else:
                load.take(_Entry(self, name, key, value, state_dict[key]), error_msgs)
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and self._lacks(key, prefix, known)]

    def _lacks(self, key: str, prefix: str, known: Mapping[str, Any]) -> bool:
        """Whether a key of a ``state_dict`` leads to nothing in this module."""
        name, _, below = key[len(prefix) :].partition(".")
        return self._roles.get(name) != "module" if below else name not in known

    def get_extra_state(self) -> Any:
        """What ``state_dict`` is to hold beyond tensors; a subclass that has some defines this."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:  # noqa: ARG002
        """Take what ``get_extra_state`` gave; a subclass that has some defines this."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Saving.get_extra_state

    def _may_be_missing(self, _version: int | None) -> tuple[str, ...]:
        """The names that a state_dict of that version of the block did not have yet."""
        return ()

    # Hooks.

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before each ``state_dict``."""
        return self._add_hook("saving", SavingHook(hook))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after each ``state_dict``, which it may change."""
        return self._add_hook("saved", SavingHook(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The same, but what the hook returns takes the place of the ``state_dict``."""
        return self._add_hook("saved", SavingHook(hook, apart=True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook`` before each ``load_state_dict``; what it changes in the ``state_dict`` is loaded.

        It gets ``(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._add_hook("loading", SavingHook(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The same; but with ``with_module`` the hook does not get the module."""
        return self._add_hook("loading", SavingHook(hook, apart=not with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after each ``load_state_dict``; it may clear keys from the lists."""
        return self._add_hook("loaded", SavingHook(hook))

    def _add_hook(self, kind: str, hook: SavingHook) -> RemovableHandle:
        if self._saving_hooks is None:
            self._saving_hooks = SavingHooks()
        table = getattr(self._saving_hooks, kind)
        handle = RemovableHandle(table)
        table[handle.id] = hook
        return handle

    def _hooks_of(self, kind: str) -> list[SavingHook]:
        return [] if self._saving_hooks is None else list(getattr(self._saving_hooks, kind).values())

    def _shown_hooks(self, kind: str) -> MutableMapping[int, Callable[..., Any]]:
        return HookFunctions({} if self._saving_hooks is None else getattr(self._saving_hooks, kind))

    @property
    def _state_dict_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before saving, by their numbers."""
        return self._shown_hooks("saving")

    @property
    def _state_dict_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after saving, by their numbers."""
        return self._shown_hooks("saved")

    @property
    def _load_state_dict_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before loading, by their numbers."""
        return self._shown_hooks("loading")

    @property
    def _load_state_dict_post_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after loading, by their numbers."""
        return self._shown_hooks("loaded")


class _Entry(NamedTuple):
    """A value of a module, and what is to be loaded into it."""

    module: Saving
    name: str
    key: str
    value: Tensor
    loaded: Any


class _Load:
    """One ``load_state_dict``: what fits, what does not, and the writing, which begins when everything fits.

    Where functions of the user's have a part in it, modules that load in a way of their own, hooks after loading and
    extra state, each value is written when its module is visited, in torch's order. What the module was is kept, and
    put back if anything raises.

    Attributes:
        keys: those that are missing or unexpected.
    """

    def __init__(self, root: Saving, *, strict: bool = True, assign: bool) -> None:
        self.root, self.strict, self.assign = root, strict, assign
        self.keys = IncompatibleKeys([], [])
        self._problems: list[str] = []
        self._entries: list[_Entry] = []
        self._tied: dict[int, Any] = {}
        self._waits = False  # whether what fits is written when all of it has been looked at
        self._before: list[Callable[[], None]] = []

    def visit(self, given: dict[str, Any], metadata: Mapping[str, Any]) -> None:
        """Let every module look for its values, parents first."""
        self._waits = all(_loads_plainly(module) for module in _each(self.root))
        if not self._waits:
            for module in _each(self.root):
                self._before += [_remembered(module), *[_held(value) for _, value in module._own(*_ROLES)]]
        waiting: list[tuple[Saving, dict[str, Any] | None, str]] = [(self.root, given, "")]
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

    def _ask(self, module: Saving, values: dict[str, Any], prefix: str, facts: dict[str, Any]) -> None:
        """Let one module look for its values."""
        if self.assign:
            facts["assign_to_params_buffers"] = True
        token = _loading.set(self)
        try:
            module._load_from_state_dict(values, prefix, facts, True, *self.keys, self._problems)
        finally:
            _loading.reset(token)

    def _loaded(self, module: Saving) -> None:
        for hook in module._hooks_of("loaded"):
            if hook.run(module, self.keys) is not None:
                raise RuntimeError("a load_state_dict post-hook returns None: it changes the lists of keys in place")

    def take(self, entry: _Entry, problems: list[str]) -> None:
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

    @contextmanager
    def undone_by_errors(self) -> Iterator[None]:
        """Inside it an error puts back what was remembered."""
        try:
            yield
        except BaseException:
            for put_back in reversed(self._before):
                put_back()
            raise

    def _write(self, entry: _Entry) -> None:
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
            value.grad = None  # it was that of other data, and as torch has it
        else:
            module._register(name, data, "buffer")

    def _misfit(self, entry: _Entry) -> str | None:
        """Why a value cannot be loaded, if it cannot."""
        key, value, loaded = entry.key, entry.value, entry.loaded
        if not isinstance(loaded, Tensor | torch.Tensor):
            return f"expected a tensor for {key}, got {torch.typename(loaded)}"
        if is_lazy(loaded):
            waits = isinstance(value, Uninitialized)
            return None if waits else f"{key} in state_dict is uninitialized: call that model once before saving it"
        return _unlike(key, value, loaded.data) or self._unready(key, value, loaded.data)

    def _unready(self, key: str, value: Tensor, data: torch.Tensor) -> str | None:
        """Why the memory of ``value`` cannot take ``data``, or another memory its place."""
        lazy = isinstance(value, Uninitialized)
        if not self.assign:
            if data.is_meta and not value.data.is_meta:
                return f"{key} in state_dict is on the device meta, without values"
            if not lazy and value.data.is_inference():
                return f"{key} was made in inference_mode(): its values cannot be changed"
            if not lazy and overlaps(value.data):
                return f"several elements of {key} are one place in memory, as expand() makes them: clone() it first"
        elif value.requires_grad and not differentiable(data.dtype):
            return f"{key} is a parameter that needs a gradient, which {dtype_name(data.dtype)} has not"
        elif isinstance(value, Parameter):
            other = self._tied.setdefault(id(value), data)
            if other is not data and not (other.shape == data.shape and torch.equal(other, data)):
                return (
                    f"{key} is a parameter with several names, which stay one with assign=True: state_dict has other "
                    "values under another of them"
                )
        return None


_loading: ContextVar[_Load | None] = ContextVar("nbgrad_loading", default=None)
"""The ``load_state_dict`` that runs, for the modules that it visits."""

_ROLES = ("parameter", "buffer", "transient")


def _each(root: Saving) -> list[Saving]:
    """Every module once, also those that one hides from its walks."""
    found: dict[Saving, None] = {}
    waiting = [root]
    while waiting:
        module = waiting.pop()
        if module not in found:
            found[module] = None
            waiting += [child for _, child in module._own("module")]
    return list(found)


def _loads_plainly(module: Saving) -> bool:
    """Whether no function of the user's has a part in its loading, but for hooks before it."""
    own = getattr(module._load_from_state_dict, "__func__", None)
    return own is Saving._load_from_state_dict and not module._hooks_of("loaded") and not module._has_extra_state()


def _remembered(module: Saving) -> Callable[[], None]:
    """A function that gives ``module`` back the attributes that it has now."""
    attributes, roles = dict(vars(module)), dict(module._roles)

    def put_back() -> None:
        vars(module).clear()
        vars(module).update(attributes)
        module._roles.clear()
        module._roles.update(roles)

    return put_back


def _held(value: Tensor) -> Callable[[], None]:
    """A function that gives ``value`` back the data that it has now."""
    kind, data, gradient = type(value), value._data, value._grad
    lazy = isinstance(value, Uninitialized)
    copied = data if lazy else data.clone()

    def put_back() -> None:
        if lazy:
            value.__class__ = kind
            value._data = data
        else:
            if value._data is not data:
                value.data = data
            data.copy_(copied)
            value._grad = gradient

    return put_back


def _data(value: Tensor) -> torch.Tensor:
    return value.data if isinstance(value, Uninitialized) else value.data.detach()


def _unlike(key: str, value: Tensor, data: torch.Tensor) -> str | None:
    """Why ``data`` is nothing that ``value`` could be."""
    if data.layout is not torch.strided or data.is_quantized or data.is_nested:
        kind = "quantized" if data.is_quantized else "nested" if data.is_nested else str(data.layout)
        return f"{key} in state_dict is {kind}, the model has an ordinary tensor: load a dense one"
    if isinstance(value, Uninitialized):
        return None
    if data.shape != value.shape and not (value.ndim == 0 and tuple(data.shape) == (1,)):
        return f"size mismatch for {key}: got shape {tuple(data.shape)}, the model has {tuple(value.shape)}"
    return None
