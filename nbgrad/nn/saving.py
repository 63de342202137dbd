"""``state_dict`` and back: a module's values by the paths that torch gives them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.spelling import kind_of
from nbgrad.core.tensor import Tensor
from nbgrad.nn.parameter import Parameter, Uninitialized, is_lazy
from nbgrad.nn.tree import Tree

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


class SavingHooks:
    """Functions of the user's that saving and loading a module run; made when the first is registered."""

    def __init__(self) -> None:
        self.saving: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.saved: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.loading: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self.loaded: OrderedDict[int, Callable[..., Any]] = OrderedDict()


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
            hook(self, prefix, keep_vars)
        for role in ("parameter", "buffer"):
            for name, value in self._own(role):
                saved[prefix + name] = value if keep_vars else _data(value)
        if self._has_extra_state():
            saved[prefix + EXTRA] = self.get_extra_state()
        for name, child in self._own("module"):
            child.state_dict(destination=saved, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of("saved"):
            if hook(self, saved, prefix, facts) is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return saved  # type: ignore[no-any-return]

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, which stay the same objects in the same memory.

        Args:
            state_dict: torch tensors or ``Tensor`` objects by path, from this class's or torch's ``state_dict``.
            strict: raise if a key is missing or unexpected, instead of reporting it.
            assign: take the memory, element type and device of the values given, instead of copying them. Parameters
                stay the same objects then too.

        Raises:
            RuntimeError: keys or shapes do not match; it lists them all, and nothing has been loaded.
            TypeError: ``state_dict`` is no dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a dict of tensors, got {kind_of(state_dict)}")
        load = _Load(self, state_dict, strict=strict)
        late = [(module, hook) for _, module in reversed(load.modules) for hook in module._hooks_of("loaded")]
        load.check(keys=not late)
        load.write(assign=assign)
        for module, hook in late:  # those of children first
            if hook(module, load.keys) is not None:
                raise RuntimeError("a load_state_dict post-hook returns None: it changes the lists of keys in place")
        if late:
            load.check(keys=True)
        return load.keys

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
        return self._add_hook("saving", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after each ``state_dict``, which it may change."""
        return self._add_hook("saved", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook`` before each ``load_state_dict``; what it changes in the ``state_dict`` is loaded.

        It gets ``(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._add_hook("loading", hook)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after each ``load_state_dict``; it may clear keys from the lists."""
        return self._add_hook("loaded", hook)

    def _add_hook(self, kind: str, hook: Callable[..., Any]) -> RemovableHandle:
        if self._saving_hooks is None:
            self._saving_hooks = SavingHooks()
        table = getattr(self._saving_hooks, kind)
        handle = RemovableHandle(table)
        table[handle.id] = hook
        return handle

    def _hooks_of(self, kind: str) -> list[Callable[..., Any]]:
        return [] if self._saving_hooks is None else list(getattr(self._saving_hooks, kind).values())


class _Entry(NamedTuple):
    """A value of a module, and what is to be loaded into it."""

    module: Saving
    name: str
    key: str
    value: Tensor
    loaded: Any


class _Load:
    """One ``load_state_dict``: what fits, what does not, and the writing, which begins when everything fits."""

    def __init__(self, root: Saving, given: Mapping[str, Any], *, strict: bool) -> None:
        self.root = root
        self.strict = strict
        self.keys = IncompatibleKeys([], [])
        self.problems: list[str] = []
        self.entries: list[_Entry] = []
        self.extra: list[tuple[Saving, Any]] = []
        self.given: dict[str, Any] = OrderedDict(given)
        metadata = getattr(given, "_metadata", None)
        if metadata is not None:
            self.given._metadata = metadata  # type: ignore[attr-defined]  # as torch keeps it
        self.modules = [(f"{path}." if path else "", module) for path, module in _each(root)]
        facts = {path: (metadata or {}).get(path[:-1], {}) for path, _ in self.modules}
        for path, module in self.modules:
            for hook in module._hooks_of("loading"):
                hook(module, self.given, path, facts[path], True, *self.keys, self.problems)
        known: set[str] = set()
        for path, module in self.modules:
            known |= self._match(path, module, facts[path].get("version"))
        self.keys.unexpected_keys.extend(key for key in self.given if key not in known)
        self.problems += [problem for entry in self.entries if (problem := _misfit(entry))]

    def _match(self, path: str, module: Saving, version: int | None) -> set[str]:
        """Find what is given for the values of ``module``, and return the keys that it knows."""
        known = set()
        for role in ("parameter", "buffer"):
            for name, value in module._own(role):
                known.add(key := path + name)
                if key in self.given:
                    self.entries.append(_Entry(module, name, key, value, self.given[key]))
                elif name not in module._may_be_missing(version):
                    self.keys.missing_keys.append(key)
        if module._has_extra_state():
            known.add(key := path + EXTRA)
            if key in self.given:
                self.extra.append((module, self.given[key]))
            else:
                self.keys.missing_keys.append(key)
        return known

    def check(self, *, keys: bool) -> None:
        """Raise an error that lists everything that does not fit; the keys among it where ``keys`` says so."""
        problems = list(self.problems)
        for kind, names in zip(("Unexpected", "Missing"), reversed(self.keys), strict=True):
            if self.strict and keys and names:
                problems.insert(0, f"{kind} key(s) in state_dict: {', '.join(map(repr, names))}")
        if problems:
            name = type(self.root).__name__
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {name}:", *problems]))

    def write(self, *, assign: bool) -> None:
        """Put the values in their places."""
        for module, name, _, value, loaded in self.entries:
            if is_lazy(loaded):
                continue  # both wait for their shape
            data = loaded.data.detach()
            if isinstance(value, Uninitialized):
                value.materialize(data.shape)
            if value.ndim == 0:
                data = data.reshape(())  # a scalar that very old files hold as one element
            if not assign:
                value.data.copy_(data)
            elif isinstance(value, Parameter):
                value.data = data
            else:
                module._register(name, data, "buffer")
        for module, state in self.extra:
            module.set_extra_state(state)


def _each(root: Saving) -> Iterator[tuple[str, Saving]]:
    """Every module with its path, a shared one under each of its paths."""
    found: Any = root.named_modules(remove_duplicate=False)
    return found  # type: ignore[no-any-return]


def _data(value: Tensor) -> torch.Tensor:
    return value.data if isinstance(value, Uninitialized) else value.data.detach()


def _misfit(entry: _Entry) -> str | None:
    """Why a value cannot be loaded, if it cannot."""
    key, value, loaded = entry.key, entry.value, entry.loaded
    if not isinstance(loaded, Tensor | torch.Tensor):
        return f"expected a tensor for {key}, got {torch.typename(loaded)}"
    if isinstance(value, Uninitialized):
        return None
    if is_lazy(loaded):
        return f"{key} in state_dict is uninitialized: call that model once before saving it"
    if loaded.shape != value.shape and not (value.ndim == 0 and tuple(loaded.shape) == (1,)):
        return f"size mismatch for {key}: got shape {tuple(loaded.shape)}, the model has {tuple(value.shape)}"
    return None
