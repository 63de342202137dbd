"""A torch tensor that needs a gradient takes part in an op of ours: torch's own autograd continues where ours ends.

A leaf of torch's becomes a leaf of ours in the same memory, with the same ``.grad``. A result of torch's becomes one
op, with the leaves that it was computed from as inputs: its rule is a backward of torch's through its own graph.
Each tensor of torch's enters once, so its gradient is complete before it goes on.
"""

from inspect import Parameter
from typing import Any
from weakref import ref

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from nbgrad.core.engine.state import current, recording
from nbgrad.core.engine.walk import nodes_before, reached
from nbgrad.core.interop.torch_graphs import TorchGraph, kind_of, node_of
from nbgrad.core.tensor.filled import fillings
from nbgrad.core.tensor.shared_gradient import SharedGradient
from nbgrad.core.tensor.tensor import Tensor

_entered: Any = WeakTensorKeyDictionary()
"""By the tensor of torch's: what stands for it, and the version and the node that it had."""


class SharedLeaf(SharedGradient, Tensor):
    """A leaf for one of torch's: the hooks on torch's leaf would not run, so they are refused.

    Args:
        theirs: the leaf of torch's.
    """

    __slots__ = ("_gradient", "_theirs")

    def __init__(self, theirs: torch.Tensor) -> None:
        self._theirs: Any = None
        self._gradient: Any = None
        super().__init__(theirs.detach(), True)
        self._theirs = ref(theirs)  # it may be gone first: then its gradient is not needed

    def _shared_with(self) -> torch.Tensor | None:
        theirs: torch.Tensor | None = None if self._theirs is None else self._theirs()
        return theirs

    def _check_shared(self, theirs: torch.Tensor) -> None:
        _check_hooks(theirs)


def _check_hooks(theirs: torch.Tensor) -> None:
    if theirs._backward_hooks or getattr(theirs, "_post_accumulate_grad_hooks", None):
        raise RuntimeError(
            f"a torch tensor of shape {tuple(theirs.shape)} has hooks of torch's engine on its gradient, which "
            "nbgrad's backward would not run: give nbgrad a tensor of its own, nbgrad.tensor(t, "
            "requires_grad=True), and register the hooks on that"
        )


def _history() -> None:
    """The part of a graph that torch's own autograd recorded."""


_DESCRIBED = kind_of(_history, (), "torch_history", _history.__doc__, (Parameter("leaves", Parameter.VAR_POSITIONAL),))


def enter(theirs: torch.Tensor) -> Tensor:
    """The tensor of ours for a torch tensor that needs a gradient: always the same, until it is changed in place."""
    if torch._C._functorch.maybe_current_level() is not None:
        raise RuntimeError(
            "a torch tensor inside a transform of torch.func needs a gradient and was used with an nbgrad tensor, "
            "which torch.func does not support: use nbgrad.func, or keep the function in torch"
        )
    known, facts = _entered.get(theirs), _facts(theirs)
    if known is not None and known[1] == facts:
        found: Tensor = known[0]
        return found
    if not theirs.is_leaf and not recording(current()):
        return Tensor(theirs.detach())
    ours = SharedLeaf(theirs) if theirs.is_leaf else _result(theirs)
    _entered[theirs] = ours, facts
    return ours


def _facts(theirs: torch.Tensor) -> tuple[Any, ...]:
    """A key that stays equal as long as the same tensor of ours may stand for it. A leaf may be changed in place."""
    version = None if theirs.is_leaf else theirs._version
    return version, theirs.grad_fn, theirs.data_ptr(), theirs.shape, theirs.stride(), theirs.dtype


def enters_whole(theirs: torch.Tensor) -> None:
    """Raise if not all of the gradient of ``theirs`` arrives at the tensor of ours that stands for it.

    That is so if ``theirs`` has hooks. For a result of torch's it is also so if the result has not entered, or if
    another result has entered that was computed from it.
    """
    _check_hooks(theirs)
    if theirs.is_leaf:
        return
    known = _entered.get(theirs)
    if known is None or known[1] != _facts(theirs) or theirs.grad_fn.metadata.get(_PASSED):  # type: ignore[union-attr]
        raise RuntimeError(
            f"the gradient of a torch tensor of shape {tuple(theirs.shape)} is not known: a torch op made it, and an "
            "nbgrad op took another tensor that was computed from it. Convert it with nbgrad.tensor(t, "
            "requires_grad=True) before it is used"
        )


_PASSED = "nbgrad passed"
"""The mark of a node of torch's from which a result that has entered was computed."""


def _result(theirs: torch.Tensor) -> Tensor:
    leaves, data = _leaves_of(theirs), theirs.detach()
    graph = TorchGraph([*leaves], [theirs])  # a checkpoint must keep it: its second run makes no new one
    node = node_of(_DESCRIBED, [enter(one) for one in leaves], [*leaves], graph, data, keeps_values=False)
    return Tensor(data, True, node)


def _leaves_of(theirs: torch.Tensor) -> list[torch.Tensor]:
    """The leaves of torch's graph that a tensor was computed from; the nodes on the way are marked."""
    leaves = []
    for node in reached(nodes_before(theirs.grad_fn), nodes_before):
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.append(variable)
        else:
            node.metadata[_PASSED] = True
    return leaves


fillings.enter, fillings.enters_whole = enter, enters_whole
