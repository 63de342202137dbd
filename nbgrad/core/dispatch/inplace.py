"""Ops that write into their first input. They use the rules of their row, and give the tensor a new origin."""

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial
from typing import Any
from weakref import ref

import torch

from nbgrad.core.backend.below_autograd import inferring
from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.backend.torch_guards import check_cut
from nbgrad.core.dispatch.arguments import bind
from nbgrad.core.dispatch.plan import Plan
from nbgrad.core.dispatch.table import Op, row_named
from nbgrad.core.engine.node import Hooks, Node, OpInfo, Origin
from nbgrad.core.engine.state import Switch, current, recording, restoring, tell_changed
from nbgrad.core.engine.tensor_data import overlaps
from nbgrad.core.tensor.call_errors import announced, explained
from nbgrad.core.tensor.filled import entered
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.tensor.views import Path, View, exchange, hand_over, outdate, stand_in

Kernel = Callable[..., Any]


class Changed:
    """A view that an op has written into. A rule that needs the result takes it as a view of the changed base.

    So a recorded backward goes through the base. The op's node keeps this object. The object holds the view, the origin
    of the base and their memory weakly: they lead back to the node, and a backward must be able to free the memory.
    """

    __slots__ = ("_base", "_data", "_path", "_view")

    def __init__(self, view: Tensor, base: Node, data: torch.Tensor, path: Path) -> None:
        self._view, self._base, self._data = ref(view), ref(base), ref(data)
        self._path = path

    def origin(self, node: Node, value: torch.Tensor) -> Origin:
        """The origin of the result of ``node``, which is saved as ``value``; the node itself if there is no other."""
        view, base, data = self._view(), self._base(), self._data()
        if view is not None and view.requires_grad and view.shape == node.shape:
            return view.origin
        data = value._base if data is None else data
        if base is None or data is None or (data.shape, data.stride()) != (base.shape, self._path.strides):
            return node
        seen: Tensor = self._path.follow(Tensor(data, True, base))
        return seen.origin


class InPlace:
    """The in-place twin of a row. Call it: it changes its first argument and returns it.

    Attributes:
        kernel: changes a raw torch tensor.
    """

    def __init__(self, row: Op, kernel: Kernel | bool, table: dict[str, Op]) -> None:
        self._of = row
        self.__doc__ = f"In place: {row.doc[:1].lower()}{row.doc[1:]}"
        self.__wrapped__ = row  # whose signature help() shows
        self.kernel: Kernel = kernel if callable(kernel) else _kernel(row)
        self._table = table

    @cached_property
    def row(self) -> Op:
        """The row under the twin's name, such as ``add_``; it is what the picture shows.

        A call of this row changes nothing and returns a new tensor. The row is made at the first use: by then the
        row that it copies has its rules.
        """
        row = copy(self._of)
        row.name, row.doc = f"{row.name}_", self.__doc__ or ""
        row._plans, row._in_place = {}, None
        return row

    def forget(self) -> None:
        """Drop the twin's own row, because the row has got another rule."""
        self.__dict__.pop("row", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return twin_named, (self._of.name,)

    def __call__(self, *args: Any, **settings: Any) -> Tensor:
        row = self.row
        if settings or len(args) != row.arity:
            args, settings, _ = bind(row, args, settings)
        return self.run(args, settings)

    def run(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Tensor:
        """Change the first input. ``args`` has every input of the row, and ``settings`` has the row's own names."""
        changed: Tensor = unheard(self._run, args, settings)
        return changed

    def _run(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Tensor:
        row = self.row
        target: Tensor = args[0]
        state = current()
        if state.tracer is not None:
            state.tracer.adopt_all(args)
        values: list[Any] = list(args)
        edges: list[Any] = [None] * len(args)
        enabled = recording(state)
        needs = row._unwrap(args, values, edges if enabled else None)
        if needs < 0:  # a tensor of ours stands for a torch tensor in ``args``
            return self._run(entered(args), settings)
        plan = None
        if needs and not enabled:
            check_cut(row.name, state.grad_enabled and row.differentiable)
        if enabled:
            try:
                _check(target, row, needs)
            except RuntimeError as error:
                raise announced(error, row, args) from None
            if edges[0] is not None and isinstance(target._alias, View) and target._alias.hooked(edges[0]):
                # The hooks belong to the view before the change, and a path has no hooks.
                edges[0] = target._alias.anew().origin
            plan = row._plans[needs] if needs in row._plans else row._make_plan(needs)
        for observer in state.observers:
            observer.on_call(row, args)
            observer.on_overwrite(target._data)
        node = None
        if plan is None:
            self._write(values[0], values, settings)
        else:
            node = self._record(plan, edges, values, settings, needs, args)
        for observer in state.observers:
            observer.on_change((target._data,), row.name)
            observer.on_result(row, args, settings, (target._data,), node)
        return target

    @restoring
    def turn(self, target: Tensor, settings: dict[str, Any]) -> Tensor:
        """Turn ``target`` into the view that the row makes of it. Other tensors share its memory, and stay as they are.

        A base becomes a view too, of a new tensor that takes its place as the base. The tensor keeps a history inside
        no_grad() too, because its old history would have another shape.
        """
        is_view = isinstance(target._alias, View)
        if recording(current()):
            _check(target, self.row, int(target._needs_grad))
        elif target._needs_grad and target.is_leaf and not is_view:
            raise NotImplementedError(
                f"{self.row.name}() on a leaf that requires grad and has views: take the op that is not in-place"
            )
        base = target if is_view else stand_in(target)
        with Switch(grad_enabled=True):
            made = self.row(base, **settings)
        raw, lay = target._data, _layout(target._data)

        def commit() -> None:
            if not is_view:
                hand_over(base)
            become(target, made._origin, needs_grad=made._needs_grad)
            exchange(target, made)

        try:
            self._write(raw, [raw], settings)
            commit()
        except BaseException:
            if _layout(raw) != lay:  # the kernel has run: see Rebase
                commit()
            raise
        tell_changed((raw,), self.row.name)
        return target

    def _record(
        self,
        plan: Plan,
        edges: list[Any],
        values: list[Any],
        settings: dict[str, Any],
        needs: int,
        args: tuple[Any, ...],
    ) -> Node | None:
        """Change the data and the history: the node keeps the old and the new values, as far as its rules need them."""
        raw, target = values[0], args[0]
        if overlaps(raw):
            raise RuntimeError(_STRETCHED.format(op=self.row.name, shape=tuple(raw.shape)))
        if 0 in plan.slots:  # a rule needs the value that is about to be overwritten
            values[0] = raw.clone()
        elif any(position == 0 for position, _ in plan.facts):
            values[0] = raw.detach()  # squeeze_() and others change the shape
        before = [_version(value) for value in values]

        def made() -> Node | None:
            node = self.row._record(edges, values, raw, settings, needs)
            if node is not None:
                # A value saved before the change has the version of that time, even if it shares the changed memory.
                node.versions = [
                    before[slot] if slot < len(before) and version is not None else version
                    for slot, version in zip(plan.slots, node.versions, strict=True)
                ]
            return node

        unchanged = _version(raw)
        rebase = Rebase(target, self._table["view_scatter"], any(slot >= len(args) for slot in plan.slots))
        try:
            self._write(raw, values, settings)
            node = rebase.origin = made()
            if node is None:
                return None
            _tell(node, args, raw)
            rebase.commit()
        except BaseException:
            if _version(raw) != unchanged:
                rebase.origin = rebase.origin or made()
                rebase.commit()
            raise
        return node

    def _write(self, raw: torch.Tensor, values: list[Any], settings: dict[str, Any]) -> None:
        try:
            change = partial(inferring, self.kernel) if current().inference else self.kernel
            change(raw, *values[1:], **settings)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise explained(self.row, error, tuple(values), values) from None


def twin_named(name: str) -> Any:
    """The in-place twin of the row that a pickle names."""
    return row_named(name).in_place


class Rebase:
    """The new history of a tensor that an op changes in place, and of what shares its memory.

    The data and the history must change together. The kernel changes the data, and no Ctrl-C can stop torch's kernels.
    But Ctrl-C may raise at any instruction after the kernel, and an observer may raise too. So the code that changes
    the data calls ``commit`` again in an ``except`` block. The second call does what the first one has left undone.

    Args:
        target: the tensor that is changed in place.
        scatter: the row that puts a view into its base.
        result: whether a rule needs the value of the target after the change.

    Attributes:
        origin: the node that changes the target, or that node's ``Output`` for the target; None until it is known.
    """

    __slots__ = ("_alias", "_done", "_made", "_result", "_scatter", "_target", "origin")

    def __init__(self, target: Tensor, scatter: Op, result: bool = False) -> None:
        self.origin: Origin | None = None
        self._target, self._alias, self._scatter, self._result = target, target._alias, scatter, result
        self._made: Node | None = None
        self._done = False

    def commit(self) -> None:
        """From now on the target comes from ``origin``, and so does what shares its memory."""
        target, alias, origin = self._target, self._alias, self.origin
        if origin is None or self._done:
            return
        tensor = target
        if isinstance(alias, View):
            origin = self._made or self._into_base(alias)
            tensor = alias.base  # type: ignore[assignment]  # a Tensor's base is one
        become(tensor, origin, needs_grad=True)
        if tensor._alias is not None:
            outdate(tensor)
        if isinstance(alias, View) and alias.hooks is not None:
            target.origin  # noqa: B018  # made now: it takes over retain_grad()
        self._done = True

    def _into_base(self, alias: View) -> Node:
        """The node that puts the changed view into its base."""
        base, target, origin = alias.base, self._target, self.origin
        changed = Tensor(target._data, True, origin)
        needs, edges = (0b11, [base.origin, origin]) if base._needs_grad else (0b10, [None, origin])
        made = self._scatter._record(edges, [base._data, target._data], base._data, {"path": alias.path()}, needs)
        assert made is not None
        if self._result and isinstance(origin, Node):
            origin.changed = Changed(target, made, base._data, alias.path())
        self._made = made  # before an observer may raise: a second commit notifies none
        _tell(made, (base, changed), base._data)
        return made


def become(target: Tensor, origin: Any, *, needs_grad: bool) -> None:
    """Give ``target`` another origin. If ``target`` retains its gradient, this is now the gradient of the new value.

    A second call goes on where an interrupt has stopped the first one.
    """
    before = target._origin
    if before is not origin and before is not None and before.hooks is not None and target.retains_grad:
        origin.hooks = Hooks(target)  # a new origin has none
        before.hooks.retained = None
    target._origin, target._needs_grad = origin, needs_grad


def check_change(target: Tensor, row: OpInfo, needs: int) -> None:
    """Refuse a change in place that is recorded and that the gradient of ``target`` does not allow.

    Raises:
        RuntimeError: it would overwrite a leaf or lose a gradient, or several elements share one place in memory.
    """
    if overlaps(target._data):
        raise RuntimeError(_STRETCHED.format(op=row.name, shape=tuple(target._data.shape)))
    _check(target, row, needs)


def _layout(raw: torch.Tensor) -> tuple[Any, ...]:
    return raw.shape, raw.stride(), raw.storage_offset()


def _version(value: Any) -> int:
    return value._version if isinstance(value, torch.Tensor) and not value.is_inference() else 0


def _tell(node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
    for observer in current().observers:
        observer.on_record(node, args, out)


def _kernel(row: Op) -> Kernel:
    """Torch's method of the twin's name. If torch has none, a function that copies the result of the forward."""
    torchs: Kernel | None = getattr(torch.Tensor, f"{row.name}_", None)
    if torchs is not None:
        return torchs

    def kernel(raw: torch.Tensor, /, *values: Any, **settings: Any) -> None:
        result = row.forward(raw, *values, **settings)
        result = result[0] if isinstance(result, tuple) else result
        if result.shape != raw.shape:
            raise RuntimeError(f"the result has shape {tuple(result.shape)}, the tensor itself {tuple(raw.shape)}")
        if not torch.can_cast(result.dtype, raw.dtype):
            raise RuntimeError(f"the result has dtype {result.dtype}, which {raw.dtype} cannot hold")
        raw.copy_(result)

    return kernel


def _check(target: Tensor, row: OpInfo, needs: int) -> None:
    """Refuse a recorded change that would overwrite a leaf, or after which a history would be missing or wrong."""
    alias, name = target._alias, row.name
    if isinstance(alias, View):
        if alias.base._needs_grad and alias.base.is_leaf:
            raise RuntimeError(_leaf(name, "a view of a leaf", alias.base))
        if needs and not alias.recorded:
            raise RuntimeError(_UNRECORDED.format(op=name))
    elif alias is not None and alias.cut and not needs:
        raise RuntimeError(_CUT.format(op=name))
    if target._needs_grad and target.is_leaf:
        raise RuntimeError(_leaf(name, "a leaf", target))
    if target._needs_grad and not row.differentiable:
        raise RuntimeError(_CONSTANT.format(op=name, out_of_place=name[:-1]))


def _leaf(name: str, what: str, leaf: Any) -> str:
    instead = "y = x.clone(); y[0] = 1 instead of x[0] = 1" if name == "setitem_" else "x = x + y instead of x += y"
    return _LEAF.format(op=name, what=what, shape=tuple(leaf.shape), instead=instead)


_LEAF = (
    "{op} changes {what} that requires grad, of shape {shape}, in-place: the value that its gradient belongs to would "
    "be lost. Write an update inside 'with nbgrad.no_grad():', where only the data change and nothing is recorded; in "
    "a computation make a new tensor, as in {instead}."
)
_CONSTANT = (
    "{op} changes a tensor in-place that has a history, to values that have no gradient: the tensor would keep the "
    "history of its old values. Make a new tensor with {out_of_place}(), or change x.detach()."
)
_STRETCHED = (
    "{op} changes a tensor of shape {shape} in-place, several of whose elements share one number in memory, as after "
    "expand(), unfold() or as_strided(): their new values are not defined. Change a clone() of it, or the tensor that "
    "it is a view of."
)
_CUT = (
    "{op} changes a tensor in-place that detach_() has cut from its history, which views of it still have: their "
    "gradient would be that of the old values. Write y = y.detach().clone() instead of y.detach_(), or make the views "
    "afterwards."
)
_UNRECORDED = (
    "{op} changes a view in-place that was made inside no_grad(), or by as_strided() of a view with fewer elements: "
    "it is not defined whether its base has a history then. Make the view and the change both inside no_grad() or "
    "both outside, and take as_strided() of the base."
)
