"""Tensors that share memory: a view knows its base and the ops that lead there, the base knows its views weakly.

An op that changes one of them in place changes what all of them hold. The changed tensor and its base get a new origin
at once. The other views lose theirs, and get one from the base on request. So ops that change nothing cost nothing.
"""

from collections.abc import Iterable
from typing import Any
from weakref import ref

import torch

from nbgrad.core.engine.node import Hooks, OpInfo, Origin, TensorBase
from nbgrad.core.engine.state import Switch, restoring
from nbgrad.core.engine.traits import traits_of

# One op that made a view, its settings, and the steps before it: a list that later views share and lengthen.
Step = tuple["Step | None", "OpInfo | ViewOutput", dict[str, Any]]


class Path:
    """The ops that lead from a base to a view, with their settings; as text: ``transpose(dim0=0, dim1=1)``.

    Attributes:
        steps: the ops and their settings.
        dtype, strides: of the base.
        offset: where it begins in its memory if one of the ops counts from there, otherwise None.
        bound: whether the result of one of the ops depends on how a tensor lies in memory.
    """

    __slots__ = ("bound", "dtype", "offset", "steps", "strides")

    def __init__(self, steps: "Iterable[tuple[OpInfo | ViewOutput, dict[str, Any]]]", base: torch.Tensor) -> None:
        self.steps = tuple(steps)
        self.dtype = base.dtype
        self.strides = base.stride()
        self.offset = base.storage_offset() if any(op.name == "as_strided" for op, _ in self.steps) else None
        self.bound = any(traits_of(op).laid for op, _ in self.steps)

    def follow(self, x: Any) -> Any:
        """The result of the ops of the path for ``x``, a raw torch tensor or a ``Tensor``."""
        for op, settings in self.steps:
            x = op(x, **settings)
        return x

    def laid(self, x: torch.Tensor) -> torch.Tensor:
        """A copy of ``x``, of the base's shape, that lies in memory as the base does: the ops give views of it."""
        room = torch.empty_strided(x.shape, self.strides, dtype=x.dtype, device=x.device)
        if self.offset:
            length = self.offset + room.untyped_storage().nbytes() // room.itemsize
            room = torch.empty(length, dtype=x.dtype, device=x.device).as_strided(x.shape, self.strides, self.offset)
        return room.copy_(x)

    def picked(self, x: torch.Tensor) -> torch.Tensor:
        """The result of the ops for ``x``, which has the base's shape: a view of it if its layout allows that."""
        alike = self.offset is None and x.stride() == self.strides and not x.is_conj() and not x.is_neg()
        seen: torch.Tensor = self.follow(x if alike or not self.bound else self.laid(x))
        return seen

    def __repr__(self) -> str:
        return ", ".join(
            f"{op.name}({', '.join(f'{name}={value}' for name, value in settings.items())})"
            for op, settings in self.steps
        )


class ViewOutput:
    """One output of an op that gives several views, as a step of a path."""

    __slots__ = ("name", "op", "position")

    def __init__(self, op: OpInfo, position: int) -> None:
        self.op = op
        self.position = position
        self.name = f"{op.name}[{position}]"

    def __call__(self, x: Any, **settings: Any) -> Any:
        """That output of the op on ``x``."""
        return self.op(x, **settings)[self.position]


class View:
    """The alias of a view.

    Attributes:
        base: the tensor that is no view itself and whose memory this is.
        last: the last step that leads to the view.
        recorded: whether all of the steps ran where ops are recorded, and none shows elements that the one before it
            does not have.
        stale: whether the base was changed in place since the origin of the view was made.
        hooks: the hooks of the origin that the view had before that change.
    """

    __slots__ = ("base", "hooks", "last", "recorded", "stale")

    def __init__(self, base: TensorBase, last: Step, recorded: bool) -> None:
        self.base = base
        self.last = last
        self.recorded = recorded
        self.hooks: Hooks | None = None
        self.stale = False

    def path(self) -> Path:
        """The steps from the base to the view."""
        steps: list[tuple[OpInfo | ViewOutput, dict[str, Any]]] = []
        step: Step | None = self.last
        while step is not None:
            step, op, settings = step
            steps.append((op, settings))
        return Path(reversed(steps), self.base._data)

    def hooked(self, origin: Any) -> bool:
        """Whether the view of this ``origin`` has hooks, or another view from which it was made."""
        step: Step | None = self.last
        while step is not None and origin is not None:
            node = getattr(origin, "node", origin)
            if origin.hooks is not None or node.hooks is not None:
                return True
            origin = node.edges[0]
            step = step[0]
        return False

    @restoring
    def anew(self) -> TensorBase:
        """The same steps, recorded again from the base as it is now."""
        with Switch(grad_enabled=True):
            again: TensorBase = self.path().follow(self.base)
        return again

    def origin(self, view: TensorBase) -> Origin:
        """The origin of ``view`` after a change, from the base."""
        if not self.recorded:
            raise RuntimeError(
                "a view that was made inside no_grad(), or by as_strided() of a view with fewer elements, has no "
                "history, but its base, or another view of it, was changed in place where ops are recorded. Make the "
                "view and the change both inside no_grad() or both outside, or make the view of x.detach(); take "
                "as_strided() of the base."
            )
        origin: Origin = self.anew().origin
        _views(self.base).add(view)
        hooks = self.hooks
        if hooks is not None and hooks.retained is not None and hooks.retained() is view:
            origin.hooks = Hooks(view)
            hooks.retained = None  # the gradient that is kept is that of the value as it is now
        view._origin = origin  # an interrupt before this line leaves the view as it was: it is asked for again
        self.hooks, self.stale = None, False
        return origin


class Views:
    """The alias of a base: weak references to the views whose origin is up to date, and to those that are behind.

    Attributes:
        cut: whether the base was cut from its history, which views of it still have.
    """

    __slots__ = ("_behind", "_limit", "_refs", "cut")

    def __init__(self) -> None:
        self.cut = False
        self._refs: list[ref[TensorBase]] = []
        self._behind: dict[int, ref[TensorBase]] = {}
        self._limit = 16

    def add(self, view: TensorBase) -> None:
        """Remember a view; references to views that are gone leave as the list grows."""
        refs = self._refs
        refs.append(ref(view))
        if len(refs) > self._limit:
            self._refs = [held for held in refs if held() is not None]
            self._limit = 2 * len(self._refs) + 16

    def current(self) -> list[TensorBase]:
        """The views that live and whose origin is up to date."""
        return [view for held in self._refs if (view := held()) is not None]

    def put_behind(self) -> None:
        """From now on the origin of the current views is behind."""
        self._behind = {key: held for key, held in self._behind.items() if held() is not None}
        self._behind |= {id(view): ref(view) for view in self.current()}
        self._refs = []

    def all(self) -> list[TensorBase]:
        """All views that live."""
        held = {id(view): view for one in (*self._refs, *self._behind.values()) if (view := one()) is not None}
        return list(held.values())


def link(
    view: TensorBase, source: TensorBase, op: OpInfo | ViewOutput, settings: dict[str, Any], recorded: bool
) -> TensorBase:
    """``view``, which remembers that ``op`` made it of ``source``, if it did: a reshape may have to copy."""
    if view._data._base is None:
        return view
    alias = source._alias
    if isinstance(alias, View):
        base, before, recorded = alias.base, alias.last, recorded and alias.recorded
        views = _views(base)
    else:
        base, before = source, None
        views = alias or _views(source)
    view._alias = View(base, (before, op, settings), recorded)
    views.add(view)
    return view


def outdate(base: TensorBase) -> None:
    """A recorded op changed the base in place: its views take a new origin from the base, when they are asked next."""
    views = _views(base)
    for view in views.current():
        if isinstance(view._alias, View) and not view._alias.stale:
            view._alias.hooks = None if view._origin is None else view._origin.hooks
            view._alias.stale = True
        view._needs_grad, view._origin = True, None
    views.put_behind()  # last: an interrupted call begins again with all of them


def cut(base: TensorBase) -> None:
    """The base is about to lose its history: views that take theirs from it do so now."""
    views = base._alias
    if not isinstance(views, Views):
        return
    for view in views.all():
        if isinstance(view._alias, View) and view._alias.recorded and view.grad_fn is not None:
            views.cut = True


def part(tensor: TensorBase) -> None:
    """``tensor`` gets other memory: it is no view any more, and no base of the views it had."""
    if isinstance(tensor._alias, Views):
        for view in tensor._alias.all():
            view._alias = None
    tensor._alias = None


def stand_in(tensor: TensorBase) -> TensorBase:
    """A tensor of the same value and history, which knows the views of ``tensor`` and may become their base."""
    base = type(tensor)(tensor._data.view_as(tensor._data), tensor._needs_grad, tensor._origin)
    base._alias = tensor._alias
    return base


def hand_over(base: TensorBase) -> None:
    """From now on ``base``, which stands in for another tensor, is the base of the views of that one."""
    for view in _views(base).all():
        assert isinstance(view._alias, View)
        view._alias.base = base


def exchange(tensor: TensorBase, view: TensorBase) -> None:
    """``tensor`` takes the place of ``view`` among the views of its base."""
    tensor._alias = view._alias
    if isinstance(tensor._alias, View):
        _views(tensor._alias.base).add(tensor)


def _views(base: TensorBase) -> Views:
    if not isinstance(base._alias, Views):
        base._alias = Views()
    return base._alias
