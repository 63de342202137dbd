"""The tensor of nbgrad: a raw torch tensor, whether it needs a gradient, and where it came from."""

import os
import warnings
from collections.abc import Callable, Iterator
from copy import _reconstruct, deepcopy  # type: ignore[attr-defined]  # rebuilds what __reduce_ex__ describes
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.below_autograd import inferring
from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.backend.torch_guards import check_asker, check_cut
from nbgrad.core.engine import backward_errors
from nbgrad.core.engine.backward import Inputs, backward
from nbgrad.core.engine.call_site import user_frame, variable_name
from nbgrad.core.engine.node import Hooks, Leaf, Node, Origin, TensorBase, add, check_alike, raw_of
from nbgrad.core.engine.pacing import backward_begun, backward_ended
from nbgrad.core.engine.source_text import replaced_text, replacement
from nbgrad.core.engine.state import current, tell_changed, tell_detached, tell_read
from nbgrad.core.engine.tensor_data import Contents, check_device, check_differentiable, dtype_name, owned, told
from nbgrad.core.engine.walk import node_of
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.broadcast_check import warn_copied
from nbgrad.core.tensor.construct import raw_from
from nbgrad.core.tensor.filled import counterparts, entered, entered_leaves, fillings
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.processes import refused
from nbgrad.core.tensor.torch_class import LikeTorchs
from nbgrad.core.tensor.views import View, cut, part


class Tensor(LikeTorchs, TensorBase, Contents, TensorMethods):
    """A multi-dimensional array that remembers how it was computed.

    Make one with ``nbgrad.tensor``. Operators and methods come from the op table and carry torch's names.

    Attributes:
        name: its name in the picture; if it is None, the name of its variable or parameter is taken.
    """

    __slots__ = ("__dict__",)  # for the user's attributes, such as t.tag = 1; it is made when the first is set
    _tell_read = tell_read

    @property
    def data(self) -> torch.Tensor:
        """The raw ``torch.Tensor``, not a copy; assign another one to replace it, as torch allows for leaves."""
        origin = self._origin
        if origin is not None and origin.__class__ is not Leaf and self._needs_grad:  # leaves are read all the time
            tell_read(self, ".data")
        return self._data

    @data.setter
    def data(self, value: "torch.Tensor | Tensor") -> None:
        if value is not self._data:  # t.data -= step assigns the same tensor
            if not self.is_leaf:
                raise RuntimeError(f"the data of a result of {self.grad_fn} cannot be replaced")
            if (tracer := current().tracer) is not None:
                tracer.refuse_data(self)
            raw = Tensor(raw_of(value))._data.detach()
            try:
                self._data = raw
                self._renew_alone()
            except BaseException:  # an interrupt must not leave the leaf that described the old data
                if self._data is raw:
                    self._renew_alone()
                raise
        tell_changed((self._data,), "t.data = ...")

    @property
    def origin(self) -> Origin:
        """The node or output of the op that made this tensor; otherwise its leaf, which the first access makes."""
        if self._known_origin() is None:
            self._origin = Leaf(self)
        origin: Origin = self._origin
        return origin

    def _known_origin(self) -> Origin | None:
        """The origin; None for a leaf that nothing has used. A view gets a new one after a change of its base."""
        alias = self._alias
        if self._origin is None and isinstance(alias, View) and alias.stale:
            self._origin = alias.origin(self)
        origin: Origin | None = self._origin
        return origin

    @property
    def kind(self) -> str:
        """The kind of its box in the picture: "op" if computed, "leaf" if it needs a gradient, else "constant"."""
        if self.grad_fn is not None:
            return "op"
        return "leaf" if self._needs_grad else "constant"

    @property
    def requires_grad(self) -> bool:
        """Whether a backward computes a gradient for this tensor, or for a tensor that it was computed from."""
        return self._needs_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None and not value:
            raise RuntimeError(
                f"requires_grad of a tensor made by {self.grad_fn.op.name} cannot be switched off: "
                "use y.detach() for a tensor that is cut from the graph"
            )
        if value:
            check_differentiable(self._data.dtype)
            if self._data.is_inference() and not current().inference:
                raise RuntimeError(
                    "requires_grad=True on a tensor that was made in inference_mode(): no backward can save it. Make "
                    "an ordinary tensor of it with clone() first"
                )
        before = self._needs_grad
        try:
            self._needs_grad = bool(value)
            self._renew_leaf()
        except BaseException:  # an interrupt must not leave the leaf that described the old setting
            self._renew_leaf()
            raise
        if before is not self._needs_grad and (tracer := current().tracer) is not None:
            tracer.requiring_set(self, before)

    def _renew_alone(self) -> None:
        part(self)
        self._renew_leaf()

    def _renew_leaf(self) -> None:
        """Make a new leaf with the same hooks, if data or ``requires_grad`` have changed since the leaf was made."""
        before = self._origin
        if isinstance(before, Leaf) and not before.stands_for(self):
            renewed = Leaf(self)
            renewed.hooks = before.hooks
            self._origin = renewed  # with its hooks: an interrupt loses none

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set ``requires_grad`` in place and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backwards have accumulated here, of this tensor's shape; None before the first.

        A tensor that an op made gets none unless it asks with ``retain_grad()``.
        """
        check_asker()
        if self._grad is None and not self.is_leaf and not self.retains_grad:
            warnings.warn(_no_grad_kept(self), stacklevel=2)
        return self._grad  # type: ignore[return-value]  # it is a Tensor

    @grad.setter
    def grad(self, value: "Tensor | torch.Tensor | None") -> None:
        if isinstance(value, torch.Tensor):
            value = Tensor(value.detach())
        if not isinstance(value, Tensor | None):
            raise TypeError(
                f"a gradient must be a tensor of shape {tuple(self.shape)} or None, not {kind_of(value)}: write "
                f"x.grad = nbgrad.tensor(...), or x.grad = None to drop it"
            )
        if value is not None and (value.shape, value.dtype, value.device) != (self.shape, self.dtype, self.device):
            raise RuntimeError(
                f"{told('a gradient', value.data)} on {value.device} cannot be assigned to "
                f"{told('a tensor', self.data)} on {self.device}: both must be the same"
            )
        if (tracer := current().tracer) is not None:
            tracer.adopt(self, reads_grad=False)
        self._grad = value
        if tracer is not None:
            tracer.gradient_set(self)

    @property
    def grad_fn(self) -> Node | None:
        """The node of the op that made this tensor; None for a leaf."""
        return node_of(self._known_origin())

    @property
    def is_leaf(self) -> bool:
        """Whether the user made this tensor, not a recorded op."""
        return self.grad_fn is None

    def backward(
        self,
        gradient: "Tensor | torch.Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Inputs | None = None,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of every leaf it was computed from.

        Args:
            gradient: the gradient to start from, of this tensor's shape; 1 for a tensor with one element.
            retain_graph: keep what the ops saved, for another backward; default: the value of ``create_graph``.
            create_graph: record the backward itself, so that the gradients can be differentiated again.
            inputs: the tensors to accumulate in and no others, leaves or not; default: every leaf.

        Raises:
            RuntimeError: this tensor needs no gradient, is not a scalar and no ``gradient`` is given, its graph was
                freed by an earlier backward, or a saved value was changed in place.
        """
        backward_begun()
        roots = [(self.origin, unheard(seed, self, gradient, create_graph=create_graph))]
        retain = create_graph if retain_graph is None else retain_graph
        backward(roots, entered_leaves(inputs), retain_graph=retain, create_graph=create_graph)
        backward_ended((self._data,), accumulates=True, differentiable=create_graph)

    def accumulate(self, gradient: Any, taken: set[int] | None, *, create_graph: bool) -> None:
        """Add ``gradient`` to ``.grad``; the engine calls it once per backward.

        ``taken`` is the set of memories that ``.grad`` must not share; if it is None, ``gradient`` is copied. Otherwise
        the first gradient becomes ``.grad`` without a copy, if it has the layout of the data.
        """
        around = GRADIENT_LOCK._is_owned()  # type: ignore[attr-defined]  # what threading.Condition asks a lock
        try:
            with GRADIENT_LOCK:
                held = self._grad
                if create_graph:
                    self._grad = gradient.clone() if held is None else held + gradient
                elif held is None:
                    self._grad = Tensor(owned(gradient, self._data, taken))
                elif held._needs_grad:
                    self._grad = Tensor(held.data + gradient)
                else:
                    held.data.add_(gradient)
                if (tracer := current().tracer) is not None and self._grad is not held:
                    tracer.gradient_set(self)
        except BaseException:
            if not around and GRADIENT_LOCK._is_owned():  # type: ignore[attr-defined]  # an interrupt hit its end
                GRADIENT_LOCK.release()
            raise

    @property
    def retains_grad(self) -> bool:
        """Whether a tensor that an op made keeps its gradient; False for a leaf, which always does."""
        hooks = None if self.is_leaf else self.origin.hooks
        return hooks is not None and hooks.retained is not None and hooks.retained() is self

    def retain_grad(self) -> None:
        """Keep the gradient of this tensor in its ``.grad``, as a leaf does.

        Raises:
            RuntimeError: the tensor needs no gradient.
        """
        if not self._needs_grad:
            raise RuntimeError("retain_grad() on a tensor that needs no gradient: there will be none to keep")
        if not self.is_leaf:
            self._hooks().retained = ref(self)

    def share_memory_(self) -> "Tensor":
        """Move the data to memory that other processes share, and return the tensor. CUDA memory is shared anyway."""
        self._data.share_memory_()  # type: ignore[no-untyped-call]
        return self

    def register_hook(self, hook: Callable[["Tensor"], "Tensor | None"]) -> RemovableHandle:
        """Call ``hook(grad)`` in each backward when the gradient of this tensor is complete.

        If the hook returns a tensor, it replaces the gradient. The method ``remove()`` of the returned handle removes
        the hook.

        Raises:
            RuntimeError: the tensor needs no gradient; in the backward: the hook returned another shape or type.
        """
        if not self._needs_grad:
            raise RuntimeError("register_hook() on a tensor that needs no gradient: the hook would never be called")

        def on_gradient(gradient: Any) -> Any:
            recorded = isinstance(gradient, Tensor)
            returned: Any = hook(gradient if recorded else Tensor(gradient))
            if returned is None:
                return gradient
            check_alike("a hook", returned, gradient)
            return returned if recorded else returned._data

        return add(self._hooks().gradient, on_gradient)

    def register_post_accumulate_grad_hook(self, hook: Callable[["Tensor"], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` in each backward after the ``.grad`` of this leaf has been written.

        Raises:
            RuntimeError: the tensor is no leaf that needs a gradient.
        """
        if not self.is_leaf or not self._needs_grad:
            raise RuntimeError("register_post_accumulate_grad_hook() needs a leaf with requires_grad=True")
        return add(self._hooks().accumulated, hook)

    def _hooks(self) -> Hooks:
        origin = self.origin
        if origin.hooks is None:
            origin.hooks = Hooks()
        return origin.hooks

    def detach(self) -> "Tensor":
        """The same memory as a tensor without history: no gradient flows through it."""
        if self._needs_grad:
            check_cut("detach", current().grad_enabled)
        detached = Tensor(unheard(self._data.detach))
        tell_detached(self, detached, "detach()")
        return detached

    def detach_(self) -> "Tensor":
        """Cut this tensor itself from its history: it becomes a leaf without a gradient. Its views keep their history.

        Raises:
            RuntimeError: it is a view itself.
        """
        if isinstance(self._alias, View):
            raise RuntimeError("detach_() on a view, whose base keeps its history: use detach(), or detach_() the base")
        cut(self)
        tell_detached(self, self, "detach_()")
        self._needs_grad, self._origin = False, None
        return self

    def __iter__(self) -> Iterator["Tensor"]:
        check_asker()
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor: use t.item() for its value")
        return iter(
            self.unbind()
        )  # one op and one gradient for all rows; the gradient of each ``self[i]`` would have the whole shape

    def __reversed__(self) -> "Tensor":
        """The tensor with its rows in the opposite order, as in torch."""
        return self.flip(0) if self._data.ndim else self

    def __repr__(self) -> str:
        text = repr(self._data)
        if self.grad_fn is not None:
            return f"{text[:-1]}, grad_fn={self.grad_fn})"
        return f"{text[:-1]}, requires_grad=True)" if self._needs_grad else text

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles are new leaves: the gradient of a copied leaf must not go to the original."""
        if not self.is_leaf:
            return refused(
                "only a leaf can be copied, pickled or sent to another process, and this is the result of "
                f"{self.grad_fn}: its history cannot be copied. Use y.detach(), y.clone() for a copy, or "
                "y.detach().numpy() for a plot"
            )
        return _rebuilt, (type(self), self._data, self._needs_grad, self.name, vars(self) or None)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tensor":
        """A copy has the gradient too, a pickle does not, as in torch."""
        twin: Tensor = _reconstruct(self, memo, *self.__reduce_ex__(4))  # with the attributes of a subclass
        twin._grad = deepcopy(self._grad, memo)
        return twin

    if not TYPE_CHECKING:  # a type checker knows all attributes that there are

        def __getattr__(self, name: str) -> Any:
            """Raise: there is no such attribute."""
            text = f"'Tensor' object has no attribute {name!r}"
            if hasattr(torch.Tensor, name):
                text += f", which torch's tensors have: nbgrad does not know it. Use t.data.{name}, without a gradient"
            raise AttributeError(text, name=name, obj=self)

    __array_priority__ = 1000  # numpy's operators leave the work to ours: array * x is a Tensor with its history

    # Elementwise comparison comes from the table; identity is what a dict or a set of tensors needs.
    __hash__ = object.__hash__


def _rebuilt(
    kind: type[Tensor], data: torch.Tensor, needs: bool, name: str | None, attributes: dict[str, Any] | None = None
) -> Tensor:
    made = kind.__new__(kind)
    Tensor.__init__(made, data, needs)
    made.name = name
    vars(made).update(attributes or {})
    return made


GRADIENT_LOCK = RLock()
"""Held while a gradient is added to a ``.grad``: two threads that share a leaf must not lose one of theirs."""

if hasattr(
    os, "register_at_fork"
):  # not on Windows; in a child process no thread would release a lock that another held
    os.register_at_fork(after_in_child=GRADIENT_LOCK._at_fork_reinit)  # type: ignore[attr-defined]  # as Python's own do


def _no_grad_kept(tensor: Tensor) -> str:
    """The warning for an access to the ``.grad`` of a tensor that an op made."""
    frame = user_frame()
    name = variable_name(lambda one: one is tensor)
    replaced = None if name is None else replacement(frame, name)
    if name is not None and replaced is not None:
        return replaced_text(frame.f_code.co_filename, replaced, name, "nbgrad")
    return (
        f"the .grad of a tensor made by {tensor.grad_fn} is asked for, but only leaves keep their gradients: call "
        "retain_grad() on it before the backward, or ask for that of a leaf"
    )


def tensor(
    data: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Make a tensor from numbers, (nested) lists, a numpy array, a torch tensor or a ``Tensor``.

    A torch tensor shares its memory; everything else is copied. No gradient flows back to ``data``. If ``data`` is a
    tensor that needs one, a warning says so, once per line.

    Args:
        data: the values.
        dtype: the element type; default: torch's choice for the data.
        device: where it lives; default: the device of the given tensor, else that of the active ``%%autograd`` cell,
            else torch's default device.
        requires_grad: whether a backward gives it a gradient.

    Raises:
        RuntimeError: ``requires_grad`` with an element type that has no gradients, or CUDA where there is none.
        RuntimeError, TypeError, ValueError: the data holds something that is no number, or rows of different lengths.
    """
    if fillings.any:
        data = counterparts(data)
    source = raw_of(data)
    wanted = check_device(device) if device is not None else None
    if isinstance(source, torch.Tensor):
        raw = source.detach().to(wanted or source.device, dtype or source.dtype, copy=source is not data)
    else:
        state = current()
        settings = {"dtype": dtype, "device": wanted or state.device}
        make = partial(inferring, raw_from) if state.inference else raw_from
        raw = make(torch.tensor, source, **settings)
    result = Tensor(raw)
    if isinstance(data, Tensor) and data.requires_grad:
        tell_detached(data, result, "tensor()")
        warn_copied(tuple(data.shape))
    result.requires_grad = requires_grad
    return result


def seed(output: Tensor, gradient: "Tensor | torch.Tensor | None", *, create_graph: bool) -> Any:
    """The gradient that a backward starts from at ``output``: a ``Tensor`` with ``create_graph``, else a raw tensor."""
    if not output.requires_grad:
        raise backward_errors.without_gradient(output.data)
    if gradient is None:
        if output.numel() != 1:
            raise RuntimeError(
                f"backward() on a tensor of shape {tuple(output.shape)}: only one with a single element has an obvious "
                "gradient to start from. Reduce it first, as in y.sum().backward(), or pass gradient= of its shape."
            )
        if output.is_complex():
            raise RuntimeError(
                "backward() on a complex number: only a real one has an obvious gradient to start from. Make a real "
                "number of it first, as in y.abs().backward(), or pass gradient=."
            )
        gradient = Tensor(torch.ones_like(output._data))
    elif isinstance(gradient, torch.Tensor):
        gradient = entered(gradient) if create_graph and gradient.requires_grad else Tensor(gradient.detach())
    elif not isinstance(gradient, Tensor):
        raise TypeError(f"gradient= must be a tensor of shape {tuple(output.shape)}, not {kind_of(gradient)}")
    if gradient.shape != output.shape:
        shapes = f"shape {tuple(gradient.shape)}, but the tensor has shape {tuple(output.shape)}"
        raise RuntimeError(f"gradient= has {shapes}: they must be equal")
    if gradient.is_complex() != output.is_complex():
        types = f"{dtype_name(gradient.dtype)}, but the tensor of {dtype_name(output.dtype)}"
        raise RuntimeError(f"gradient= is of type {types}: both must be complex, or both real")
    if gradient.dtype != output.dtype or gradient.device != output.device:
        gradient = gradient.to(device=output.device, dtype=output.dtype)
    return gradient if create_graph else gradient.data
