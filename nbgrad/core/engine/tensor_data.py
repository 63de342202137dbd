"""Questions about the data of a tensor alone: its shape, its type, its numbers."""

from typing import Any

import numpy as np
import torch

from nbgrad.core.backend.function_mode import muted
from nbgrad.core.backend.torch_guards import check_asker, check_flex_attention


def dtype_name(dtype: torch.dtype) -> str:
    """The name of an element type in messages and pictures: float32, not torch.float32."""
    return str(dtype).removeprefix("torch.")


def told(name: str, value: Any) -> str:
    """The text about an argument in messages: the shape and the type of a tensor, or the value itself."""
    if isinstance(value, torch.Tensor):
        return f"{name} of shape {tuple(value.shape)} and dtype {dtype_name(value.dtype)}"
    return f"{name} = {value!r}"


def check_device(device: torch.device | str | int) -> torch.device:
    """Return the device of this name or number; raise an error if this machine lacks it."""
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"device {str(wanted)!r} was asked for, but torch finds no CUDA device on this machine: "
            "use device='cpu', or install a CUDA build of torch and a driver"
        )
    return wanted


OWN_DISPATCH: Any = torch.Tensor.__torch_dispatch__
"""The mark of a class of tensors that leaves the kernels as they are."""


def without_numbers(data: torch.Tensor) -> bool:
    """Whether torch gives ``data`` a shape and no numbers: on the meta device, in ``FakeTensorMode``, once freed."""
    return data.is_meta or (type(data) is not torch.Tensor and type(data).__name__ == FAKE) or _is_freed(data)


def _is_freed(data: torch.Tensor) -> bool:
    """Whether its memory was freed: FSDP gathers a parameter for one use, and to read it later ends the process."""
    try:
        return data.layout is torch.strided and not data.data_ptr() and data.numel() > 0 and not data._is_zerotensor()
    except RuntimeError:  # of a class without memory of its own
        return False


FAKE = "FakeTensor"
"""The class of the tensors of ``FakeTensorMode``: to import it takes longer than all of nbgrad."""


def memory_of(data: torch.Tensor) -> int:
    """The address of the memory behind ``data``, which it shares with its views.

    A sparse tensor has none to share, nor has a nested one, nor a parameter that waits for its shape, nor a tensor of
    a class with a ``__torch_dispatch__``.
    """
    if type(data).__torch_dispatch__ is not OWN_DISPATCH:
        return -id(data)
    try:
        return data.untyped_storage().data_ptr()
    except (NotImplementedError, ValueError, RuntimeError):
        return -id(data)


def memory_uses(data: torch.Tensor) -> int:
    """The number of tensors that share the memory of ``data``, plus a constant."""
    return torch._C._storage_Use_Count(data.untyped_storage()._cdata)


def overlaps(data: torch.Tensor) -> bool:
    """Whether several elements share one place in memory, as after ``expand()`` and in overlapping windows."""
    if data.is_contiguous():
        return False
    reach, apart = 0, True
    for stride, size in sorted(zip(data.stride(), data.shape, strict=True)):
        apart = apart and (size < 2 or stride > reach)
        reach += (size - 1) * stride
    return not apart and _collides(data, reach)


@muted  # modes should not see what the user did not compute
def _collides(data: torch.Tensor, reach: int) -> bool:
    places = torch.arange(reach + 1).as_strided(data.shape, data.stride())
    return bool(torch.bincount(places.reshape(-1)).max() > 1)


REAL = frozenset([torch.float16, torch.bfloat16, torch.float32, torch.float64])
"""The usual element types with gradients: to find one here is faster than to ask it."""


def differentiable(dtype: torch.dtype) -> bool:
    """Whether tensors of this element type can have gradients: real and complex floating point numbers."""
    return dtype.is_floating_point or dtype.is_complex


def check_differentiable(dtype: torch.dtype) -> None:
    """Raise an error for an element type without gradients."""
    if not differentiable(dtype):
        raise RuntimeError(
            f"only floating point and complex tensors can require gradients, not {dtype}: "
            "write nbgrad.tensor([1.0, 2.0]) or pass dtype=torch.float32"
        )


def owned(gradient: torch.Tensor, data: torch.Tensor, taken: set[int] | None) -> torch.Tensor:
    """Return ``gradient`` itself if it has memory of its own and the layout of ``data``, otherwise a copy.

    Args:
        gradient: of the shape of ``data``.
        data: of the tensor whose gradient it becomes.
        taken: addresses of memory in use, to which that of the result is added; None to copy in any case.
    """
    if taken is not None and laid_out_as(gradient, data):
        memory = -id(gradient) if without_numbers(gradient) else gradient.data_ptr()
        if memory and memory not in taken:  # zeros of torch's have no memory, and cannot be changed in place
            taken.add(memory)
            return gradient
    return torch.empty_like(data).copy_(gradient if gradient.layout is torch.strided else gradient.to_dense())


def laid_out_as(gradient: torch.Tensor, data: torch.Tensor) -> bool:
    """Whether a gradient fills its own memory in the layout of ``data``, and is no lazy conjugate."""
    if not (gradient.is_contiguous() and data.is_contiguous()) and gradient.stride() != data.stride():
        return False
    if gradient._base is None and not gradient.is_inference():  # most tensors are no view
        return True
    if gradient.untyped_storage().nbytes() != gradient.nbytes:
        return False
    return not (gradient.is_neg() or (gradient.dtype.is_complex and gradient.is_conj()))


def _fact(name: str, doc: str) -> Any:
    """A property with what the raw tensor says under that name; False where this torch does not know it."""
    return property(lambda tensor: getattr(tensor._data, name, False), doc=doc)


class Contents:
    """Base of ``Tensor``: the methods that ask the raw torch tensor alone, not the history."""

    __slots__ = ()

    _data: torch.Tensor
    _needs_grad: bool
    _tell_read: Any

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
    def layout(self) -> torch.layout:
        """How the elements lie in memory: torch's name for the usual way is ``torch.strided``."""
        return self._data.layout

    @property
    def _cdata(self) -> int:
        """Torch's number of the raw tensor: libraries compare it, to see whether two tensors are the same."""
        return self._data._cdata

    @property
    def is_cuda(self) -> bool:
        """Whether the data lives on a GPU."""
        return self._data.is_cuda

    @property
    def is_cpu(self) -> bool:
        """Whether the data lives in the memory of the processor."""
        return self._data.is_cpu

    @property
    def is_meta(self) -> bool:
        """Whether it has a shape and no numbers."""
        return self._data.is_meta

    @property
    def _is_param(self) -> bool:
        """The mark that torch's Parameter sets on a tensor."""
        return False

    @_is_param.setter
    def _is_param(self, _value: bool) -> None:
        raise TypeError("torch.nn.Parameter(t) wraps torch's own tensors: for nbgrad's write nbgrad.nn.Parameter(t)")

    @property
    def is_nested(self) -> bool:
        """Whether it is a list of tensors of different shapes."""
        check_flex_attention()
        return self._data.is_nested

    @property
    def is_sparse(self) -> bool:
        """Whether only the elements that are not 0 are kept."""
        check_asker()  # torch's gradcheck reads this first of all
        return self._data.is_sparse

    is_sparse_csr = _fact("is_sparse_csr", "Whether only the elements that are not 0 are kept, row by row.")
    is_quantized = _fact("is_quantized", "Whether the elements are whole numbers that stand for real ones.")
    is_mkldnn = _fact("is_mkldnn", "Whether it lies in the layout of the library MKL-DNN.")
    is_mps = _fact("is_mps", "Whether the data lives on a GPU of Apple's.")
    is_xpu = _fact("is_xpu", "Whether the data lives on a GPU of Intel's.")
    is_xla = _fact("is_xla", "Whether the data lives on a device of the compiler XLA.")
    is_ipu = _fact("is_ipu", "Whether the data lives on a processor of Graphcore's.")
    is_maia = _fact("is_maia", "Whether the data lives on an accelerator of Microsoft's.")
    is_mtia = _fact("is_mtia", "Whether the data lives on an accelerator of Meta's.")
    is_vulkan = _fact("is_vulkan", "Whether the data lives on a device of the interface Vulkan.")

    def is_conj(self) -> bool:
        """Whether the elements are still to be conjugated when they are read."""
        return self._data.is_conj()

    def is_neg(self) -> bool:
        """Whether the elements are still to be negated when they are read."""
        return self._data.is_neg()

    def is_distributed(self) -> bool:
        """Whether it is spread over several processes."""
        return self._data.is_distributed()

    def is_set_to(self, tensor: Any) -> bool:
        """Whether ``tensor`` has the same memory, shape and strides."""
        return bool(self._data.is_set_to(getattr(tensor, "_data", tensor)))

    def get_device(self) -> int:
        """The number of the GPU that the data lives on; -1 for the processor."""
        return self._data.get_device()

    def is_inference(self) -> bool:
        """Whether it was made in ``inference_mode()``, so that no backward can save it."""
        return self._data.is_inference()

    def is_shared(self) -> bool:
        """Whether the data are in memory that other processes see too, as ``share_memory_()`` puts them."""
        return bool(self._data.is_shared())  # type: ignore[no-untyped-call]

    def is_pinned(self) -> bool:
        """Whether it lies in main memory that a GPU reads without a copy by the processor."""
        return self._data.is_pinned()

    @property
    def _version(self) -> int:
        """How often the memory was changed in place, as torch counts it: a backward compares what it saved."""
        return self._data._version

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

    nelement = numel
    ndimension = dim

    def is_same_size(self, other: Any) -> bool:
        """Whether ``other``, a tensor, has the same shape."""
        return bool(self.shape == other.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements."""
        return self._data.nbytes

    @property
    def itemsize(self) -> int:
        """The number of bytes of an element."""
        return self._data.itemsize

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._data.data_ptr()

    def storage_offset(self) -> int:
        """How many elements of the memory that it shares lie before the first one."""
        return int(self._data.storage_offset())

    def untyped_storage(self) -> torch.UntypedStorage:
        """The memory that it shares with its views."""
        return self._data.untyped_storage()

    def stride(self, dim: int | None = None) -> Any:
        """How many elements in memory lie from one index to the next, in each dimension or in one."""
        return self._data.stride() if dim is None else self._data.stride(dim)

    def is_contiguous(self, memory_format: torch.memory_format = torch.contiguous_format) -> bool:
        """Whether the elements lie in memory one after the other."""
        return self._data.is_contiguous(memory_format=memory_format)

    def dim_order(self, **settings: Any) -> tuple[int, ...]:
        """The dimensions in the order in which they lie in memory, the outermost first."""
        return tuple(self._data.dim_order(**settings))

    def element_size(self) -> int:
        """The number of bytes of an element."""
        return self._data.element_size()

    def is_signed(self) -> bool:
        """Whether the element type has negative numbers."""
        return self._data.is_signed()

    def is_nonzero(self) -> bool:
        """Whether the one element is other than zero."""
        return self._data.is_nonzero()

    def is_floating_point(self) -> bool:
        """Whether the elements are real floating point numbers."""
        return self._data.is_floating_point()

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers."""
        return self._data.is_complex()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Torch's name for element type and device; with ``dtype``, a type or its name, convert to it, as ``to``."""
        if dtype is None:
            return self._data.type()
        wanted = self._data.new_empty(0).type(dtype)
        return self.to(dtype=wanted.dtype, device=wanted.device, non_blocking=non_blocking)  # type: ignore[attr-defined]

    def item(self) -> Any:
        """The value of a tensor with one element as a Python number."""
        self._tell_read("item()")
        return self._data.item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        self._tell_read("tolist()")
        return self._data.tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The values as a numpy array that shares the memory of a CPU tensor.

        Args:
            force: without the gradient, and copied where numpy cannot share the memory, as that of a GPU.

        Raises:
            RuntimeError: the tensor needs a gradient, which numpy would lose: use ``t.detach().numpy()``.
        """
        if self._needs_grad and not force:
            raise RuntimeError("numpy() on a tensor that needs a gradient would lose it: use t.detach().numpy()")
        self._tell_read("numpy(force=True)")
        result: np.ndarray[Any, Any] = self._data.numpy(force=force)
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        if copy is None:  # it is copied if the type needs it; numpy 1 offers only asarray for that
            return np.asarray(values, dtype=dtype)
        return np.array(values, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError(
                "len() of a 0-d tensor. To make one tensor from a list of such tensors, write nbgrad.stack(tensors), "
                "through which gradients flow, or nbgrad.tensor(tensors), which copies their numbers: torch.tensor() "
                "cannot read them"
            )
        return len(self._data)

    def __complex__(self) -> complex:
        return complex(self.item())

    def __contains__(self, element: Any) -> bool:
        """Whether ``element``, a number or a tensor, equals one of the elements."""
        other = getattr(element, "_data", element)
        self._tell_read("a test with in")
        return other in self._data

    def __bool__(self) -> bool:
        if self._data.numel() != 1:
            raise RuntimeError(
                f"Boolean value of a tensor of shape {tuple(self._data.shape)} is ambiguous: write x.any() or x.all(), "
                "or nbgrad.where(condition, a, b) to choose element by element"
            )
        return bool(self._data)

    def __float__(self) -> float:
        self._tell_read("float()")
        return float(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __index__(self) -> int:
        return self._data.__index__()

    def __format__(self, spec: str) -> str:
        if self._data.ndim == 0 and not self._data.is_meta:
            return format(self._data.item(), spec)
        try:
            return format(str(self), spec)
        except ValueError:
            raise TypeError(
                f"the format {spec!r} is for one number, not for a tensor of shape {tuple(self.shape)}: write "
                f"f'{{t.item():{spec}}}' where it has one element, or format the numbers of t.tolist()"
            ) from None


def text_of(value: Any) -> str:
    """The text of a setting; the name of its class if its ``__str__`` raises."""
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"


def words_of(error: BaseException) -> str:
    """The message of an error; empty if its ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return ""
