"""The tensor of nbgrad: a raw torch tensor, whether it needs a gradient, and where it came from."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from nbgrad.core import engine
from nbgrad.core.methods import TensorMethods
from nbgrad.core.modes import current
from nbgrad.core.node import Leaf, Node, Origin


class Tensor(TensorMethods):
    """A multi-dimensional array that remembers how it was computed.

    Make one with ``nbgrad.tensor``. Operators and methods come from the op table and carry torch's names.

    Attributes:
        name: what the picture calls it; variable and parameter names fill it in where it is None.
    """

    __slots__ = ("__weakref__", "_data", "_grad", "_needs_grad", "_origin", "name")

    name: str | None

    def __init__(self, data: torch.Tensor, requires_grad: bool = False, origin: Origin | None = None) -> None:
        self._data = data
        self.name = None
        self._needs_grad = requires_grad
        self._origin = origin
        self._grad: Tensor | None = None

    @property
    def data(self) -> torch.Tensor:
        """The raw ``torch.Tensor``, not a copy; assign another one to replace it, as torch allows for leaves."""
        return self._data

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        if not self.is_leaf:
            raise RuntimeError(f"the data of a result of {self.grad_fn} cannot be replaced")
        self._data = value.detach()
        self._origin = None  # the leaf states shape, dtype and device of its gradients: new data need a new one

    @property
    def origin(self) -> Origin:
        """The node that made this tensor, or its leaf; a leaf is made when it is first asked for."""
        if self._origin is None:
            self._origin = Leaf(self)
        return self._origin

    @property
    def kind(self) -> str:
        """What the picture draws: "op" for a computed tensor, "leaf" for one that needs a gradient, or "constant"."""
        if self.grad_fn is not None:
            return "op"
        return "leaf" if self._needs_grad else "constant"

    @property
    def requires_grad(self) -> bool:
        """Whether a backward gives this tensor, or what it was made from, a gradient."""
        return self._needs_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self.grad_fn is not None and not value:
            raise RuntimeError(
                f"requires_grad of a tensor made by {self.grad_fn.op.name} cannot be switched off: "
                "use y.detach() for a tensor that is cut from the graph"
            )
        if value:
            _check_differentiable(self._data.dtype)
        if value != self._needs_grad:
            self._origin = None if self.is_leaf else self._origin
        self._needs_grad = bool(value)

    def requires_grad_(self, requires_grad: bool = True) -> "Tensor":
        """Set ``requires_grad`` in place and return the tensor."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self) -> "Tensor | None":
        """The gradient that backwards have accumulated here, of this tensor's shape; None before the first."""
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | torch.Tensor | None") -> None:
        if isinstance(value, torch.Tensor):
            value = Tensor(value.detach())
        if value is not None and value.shape != self.shape:
            raise RuntimeError(
                f"a gradient of shape {tuple(value.shape)} cannot be assigned to a tensor of shape {tuple(self.shape)}"
            )
        self._grad = value

    @property
    def grad_fn(self) -> Node | None:
        """The node of the op that made this tensor; None for a leaf."""
        return self._origin if isinstance(self._origin, Node) else None

    @property
    def is_leaf(self) -> bool:
        """Whether the user made this tensor, not a recorded op."""
        return not isinstance(self._origin, Node)

    def backward(
        self,
        gradient: "Tensor | torch.Tensor | None" = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of every leaf it was computed from.

        Args:
            gradient: the gradient to start from, of this tensor's shape; 1 for a tensor with one element.
            retain_graph: keep what the ops saved, for another backward; default: the value of ``create_graph``.
            create_graph: record the backward itself, so that the gradients can be differentiated again.

        Raises:
            RuntimeError: this tensor needs no gradient, is not a scalar and no ``gradient`` is given, its graph was
                freed by an earlier backward, or a saved value was changed in place.
        """
        roots = [(self.origin, seed(self, gradient, create_graph=create_graph))]
        retain = create_graph if retain_graph is None else retain_graph
        engine.backward(roots, retain_graph=retain, create_graph=create_graph)

    def accumulate(self, gradient: Any, *, alone: bool, create_graph: bool) -> None:
        """Add ``gradient`` to ``.grad``; the engine calls it once per backward.

        The first gradient becomes ``.grad`` without a copy if it is ``alone`` in its memory and laid out as the data.
        """
        if gradient.shape != self._data.shape:
            raise RuntimeError(
                f"the data of a leaf were replaced between forward and backward: the gradient has shape "
                f"{tuple(gradient.shape)}, the leaf now {tuple(self._data.shape)}. Replace them before the forward."
            )
        held = self._grad
        if create_graph:
            self._grad = gradient.clone() if held is None else held + gradient
        elif held is None:
            fits = gradient.stride() == self._data.stride() and gradient.untyped_storage().nbytes() == gradient.nbytes
            self._grad = Tensor(gradient if alone and fits else torch.empty_like(self._data).copy_(gradient))
        elif held._needs_grad:
            self._grad = Tensor(held.data + gradient)
        else:
            held.data.add_(gradient)

    def detach(self) -> "Tensor":
        """The same memory as a tensor without history: no gradient flows through it."""
        return Tensor(self._data.detach())

    # What is asked of the data alone.

    @property
    def shape(self) -> torch.Size:
        """The size of each dimension."""
        return self._data.shape

    @property
    def dtype(self) -> torch.dtype:
        """The type of the elements."""
        return self._data.dtype

    @property
    def device(self) -> torch.device:
        """Where the data lives."""
        return self._data.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def dim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        return self._data.shape if dim is None else self._data.shape[dim]

    def numel(self) -> int:
        """The number of elements."""
        return self._data.numel()

    def item(self) -> Any:
        """The value of a tensor with one element as a Python number."""
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._data.tolist()

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as a numpy array that shares the memory of a CPU tensor.

        Raises:
            RuntimeError: the tensor needs a gradient, which numpy would lose: use ``t.detach().numpy()``.
        """
        if self._needs_grad:
            raise RuntimeError("numpy() on a tensor that needs a gradient would lose it: use t.detach().numpy()")
        result: np.ndarray[Any, Any] = self._data.numpy()
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator["Tensor"]:
        if self._data.ndim == 0:
            raise TypeError("iteration over a 0-d tensor: use t.item() for its value")
        return (self[index] for index in range(len(self._data)))

    def __bool__(self) -> bool:
        return bool(self._data)

    def __float__(self) -> float:
        return float(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __index__(self) -> int:
        return self._data.__index__()

    def __format__(self, spec: str) -> str:
        return format(self._data.item(), spec) if self._data.ndim == 0 and spec else format(str(self), spec)

    def __repr__(self) -> str:
        text = repr(self._data)
        if self.grad_fn is not None:
            return f"{text[:-1]}, grad_fn={self.grad_fn})"
        return f"{text[:-1]}, requires_grad=True)" if self._needs_grad else text

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Copies and pickles are leaves of their own: a copied leaf must not give its gradient to the original."""
        if not self.is_leaf:
            raise RuntimeError(
                f"only a leaf can be copied or pickled, not the result of {self.grad_fn}: use y.detach() or y.clone()"
            )
        return _rebuilt, (type(self), self._data, self._needs_grad, self.name, self._grad)

    # numpy's operators leave the work to ours: array * x is a Tensor with its history.
    __array_priority__ = 1000

    # Elementwise comparison comes from the table; identity is what a dict or a set of tensors needs.
    __hash__ = object.__hash__


def _rebuilt(kind: type[Tensor], data: torch.Tensor, needs: bool, name: str | None, grad: Tensor | None) -> Tensor:
    made = kind.__new__(kind)
    Tensor.__init__(made, data, needs)
    made.name, made._grad = name, grad
    return made


def tensor(
    data: Any,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Make a tensor from numbers, (nested) lists, a numpy array, a torch tensor or a ``Tensor``.

    A torch tensor shares its memory; everything else is copied.

    Args:
        data: the values.
        dtype: the element type; default: torch's choice for the data.
        device: where it lives; default: that of a tensor given, else the device of the active ``%%autograd`` cell,
            else torch's default device.
        requires_grad: whether a backward gives it a gradient.

    Raises:
        RuntimeError: ``requires_grad`` with an element type that has no gradients, or CUDA where there is none.
    """
    source = data.data if isinstance(data, Tensor) else data
    wanted = check_device(device) if device is not None else None
    if isinstance(source, torch.Tensor):
        raw = source.detach().to(device=wanted or source.device, dtype=dtype or source.dtype)
    else:
        raw = torch.tensor(source, dtype=dtype, device=wanted or current().device)
    result = Tensor(raw)
    result.requires_grad = requires_grad
    return result


def check_device(device: torch.device | str) -> torch.device:
    """The device by that name, or an error that says that this machine has none."""
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"device {str(wanted)!r} was asked for, but torch finds no CUDA device on this machine: "
            "use device='cpu', or install a CUDA build of torch and a driver"
        )
    return wanted


def seed(output: Tensor, gradient: "Tensor | torch.Tensor | None", *, create_graph: bool) -> Any:
    """The gradient that a backward starts from at ``output``: a ``Tensor`` with ``create_graph``, else a raw tensor."""
    if not output.requires_grad:
        raise RuntimeError(
            "backward() on a tensor that needs no gradient: nothing it was computed from has requires_grad=True, or it "
            "was computed inside no_grad(). Make the inputs with nbgrad.tensor(..., requires_grad=True)."
        )
    if gradient is None:
        if output.numel() != 1:
            raise RuntimeError(
                f"backward() on a tensor of shape {tuple(output.shape)}: only one with a single element has an obvious "
                "gradient to start from. Reduce it first, as in y.sum().backward(), or pass gradient= of its shape."
            )
        gradient = Tensor(torch.ones_like(output.data))
    elif isinstance(gradient, torch.Tensor):
        gradient = Tensor(gradient.detach())
    elif not isinstance(gradient, Tensor):
        raise TypeError(f"gradient= must be a tensor of shape {tuple(output.shape)}, not {type(gradient).__name__}")
    if gradient.shape != output.shape:
        raise RuntimeError(
            f"gradient= has shape {tuple(gradient.shape)}, but the tensor has shape {tuple(output.shape)}: "
            "they must be equal"
        )
    if gradient.dtype != output.dtype or gradient.device != output.device:
        gradient = gradient.to(device=output.device, dtype=output.dtype)
    return gradient if create_graph else gradient.data


def _check_differentiable(dtype: torch.dtype) -> None:
    if dtype.is_complex:
        raise NotImplementedError(
            f"gradients of {dtype} tensors are not supported: split them into real and imaginary part"
        )
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"only floating point tensors can require gradients, not {dtype}: "
            "write nbgrad.tensor([1.0, 2.0]) or pass dtype=torch.float32"
        )
