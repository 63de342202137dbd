"""The types of the op table's parameters, by name, for the stub files: the functions there have no annotations."""

import inspect
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Any, NamedTuple

from nbgrad.core import ops
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.table import Op
from nbgrad.core.ops import torch_signatures
from tools.created import CREATED

HEADER = """
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from nbgrad.core.tensor.tensor import Tensor
"""

KINDS = """
Array = Tensor | torch.Tensor | np.ndarray[Any, Any]
Number = complex
Operand = Array | np.generic | complex
"""
"""Number, because torch has a function ``complex``."""

INT = "int"
INTS = "int | Sequence[int]"
DIMS = "int | Sequence[int] | None"
FLOAT = "float"
BOOL = "bool"
DTYPE = "torch.dtype | None"
ARRAYS = "Sequence[Array]"

TENSORS = {
    *(
        "A",
        "B",
        "M",
        "LU_data",
        "LU_pivots",
        "_random_samples",
        "a",
        "anchor",
        "append",
        "attn_mask",
        "aweights",
        "b",
        "b_hh",
        "b_ih",
        "batch1",
        "batch2",
        "bias",
    ),
    *(
        "boundaries",
        "condition",
        "end",
        "exponent",
        "fweights",
        "grid",
        "hx",
        "index",
        "indices",
        "input",
        "input1",
        "input2",
        "input_lengths",
        "key",
        "linear_bias",
        "linear_weight",
    ),
    *(
        "log_probs",
        "logits",
        "mask",
        "mat1",
        "mat2",
        "mat_a",
        "mat_b",
        "negative",
        "offs",
        "offsets",
        "other",
        "params",
        "per_sample_weights",
        "pos_weight",
        "positive",
    ),
    *(
        "prepend",
        "quantiles",
        "query",
        "running_mean",
        "running_var",
        "self",
        "sorted_sequence",
        "sorter",
        "source",
        "src",
        "target",
    ),
    *(
        "target_lengths",
        "targets",
        "tau",
        "tensor1",
        "tensor2",
        "theta",
        "v",
        "values",
        "var",
        "vec",
        "vec2",
        "w_hh",
        "w_ih",
        "weight",
        "weights",
        "window",
        "x",
        "x1",
        "x2",
        "y",
    ),
}
"""Parameters that are tensors; optional ones where their default is None."""

TYPES = {
    "N": "int | None",
    "add_zero_attn": "bool",
    "align_corners": "bool | None",
    "align_to_window": "bool | None",
    "alpha": "Number",
    "approximate": "str",
    "atol": FLOAT,
    "beta": "Number",
    "bias_k": "Array | None",
    "bias_v": "Array | None",
    "bins": INT,
    "chunks": INT,
    "compute_mode": "str",
    "correction": "float | None",
    "cudnn_enabled": "bool | None",
    "decimals": INT,
    "destination": INTS,
    "device": "torch.device | str | None",
    "dilation": INTS,
    "dim": INT,
    "dim0": INT,
    "dim1": INT,
    "dim2": INT,
    "dimension": INT,
    "dims": INT,
    "distance_function": "Callable[[Tensor, Tensor], Tensor] | None",
    "divisor_override": "int | None",
    "downscale_factor": INT,
    "driver": "str | None",
    "dropout_p": FLOAT,
    "dtype": DTYPE,
    "out_dtype": DTYPE,
    "dx": "float | None",
    "embed_dim_to_check": INT,
    "end": "int | None",
    "eps": "float | None",
    "equation": "str | Sequence[str]",
    "generator": "torch.Generator | None",
    "groups": INT,
    "hop_length": "int | None",
    "ignore_index": "int | None",
    "in_proj_bias": "Array | None",
    "in_proj_weight": "Array | None",
    "ind": INT,
    "index": INT,
    "indices_or_sections": INTS,
    "interpolation_mode": INT,
    "k": INT,
    "k_proj_weight": "Array | None",
    "kernel_size": INTS,
    "key_padding_mask": "Array | None",
    "length": INT,
    "limits": FLOAT,
    "lower": FLOAT,
    "margin": FLOAT,
    "matrices": "Array",
    "max": FLOAT,
    "max_norm": "float | None",
    "maxnorm": FLOAT,
    "memory_format": "torch.memory_format",
    "min": FLOAT,
    "mode": "str",
    "n": INT,
    "n_fft": INT,
    "nan": "float | None",
    "neginf": "float | None",
    "norm": "str | None",
    "norm_type": FLOAT,
    "normalized_shape": INTS,
    "num_groups": INT,
    "num_heads": INT,
    "num_samples": INT,
    "offset": INT,
    "onesided": "bool | None",
    "operands": "Array",
    "options": "Any",
    "ord": "float | str | None",
    "out": "None",
    "out_proj_bias": "Array | None",
    "out_proj_weight": "Array",
    "out_ratio": "float | Sequence[float] | None",
    "output_padding": INTS,
    "output_ratio": "float | Sequence[float] | None",
    "output_size": "int | Sequence[int | None] | None",
    "p": FLOAT,
    "pad": "Sequence[int]",
    "padding": INTS,
    "padding_idx": "int | None",
    "padding_mode": INT,
    "pivot": BOOL,
    "posinf": "float | None",
    "q": "float | Array",
    "q_proj_weight": "Array | None",
    "rcond": "float | Array | None",
    "recompute_scale_factor": "bool | None",
    "reduce": "str",
    "repeats": "int | Sequence[int] | Array | None",
    "return_complex": "bool | None",
    "return_indices": BOOL,
    "rounding_mode": "str | None",
    "rtol": FLOAT,
    "s": "Sequence[int] | None",
    "scale": "float | None",
    "scale_factor": "float | Sequence[float] | None",
    "sections": INTS,
    "shape": INT,
    "size_average": "bool | None",
    "shifts": INTS,
    "side": "str | None",
    "size": INT,
    "source_dims": INTS,
    "spacing": "float | Sequence[float | Array] | None",
    "sparsity": FLOAT,
    "split_size_or_sections": INTS,
    "split_sizes": "Sequence[int]",
    "start": "int | None",
    "static_k": "Array | None",
    "static_v": "Array | None",
    "step": INT,
    "storage_offset": "int | None",
    "stride": INTS,
    "tensors": ARRAYS,
    "threshold": FLOAT,
    "tol": "float | Array | None",
    "train": "bool | None",
    "training": BOOL,
    "unbiased": "bool | None",
    "upper": BOOL,
    "upscale_factor": INT,
    "v_proj_weight": "Array | None",
    "val": FLOAT,
    "value": "Number",
    "fill_value": FLOAT,
    "win_length": "int | None",
}
"""The types of other parameters, by name.

A parameter that is not here gets its type from its default: True, 1, 1.0 or a string.
"""

_ALONG = "int | Sequence[int]"
_ALL = "int | Sequence[int] | None"
EXCEPTIONS = {
    ("orthogonal", "gain"): FLOAT,
    ("kaiming_uniform", "a"): FLOAT,
    ("kaiming_normal", "a"): FLOAT,
    **{(name, "dim"): _ALONG for name in ("amax", "amin", "logsumexp")},
    **{(name, "dim"): "int | None" for name in ("argmax", "argmin", "prod", "take_along_dim", "repeat_interleave")},
    **{(name, "dim"): "int | None" for name in ("unique", "unique_consecutive", "cross", "aminmax", "linalg_cross")},
    **{
        (name, "dim"): _ALL
        for name in (
            *("all", "any", "count_nonzero", "fft_fftn", "fft_fftshift", "fft_hfftn", "fft_ifftn", "fft_ifftshift"),
            *("fft_ihfftn", "fft_irfftn", "fft_rfftn", "linalg_norm", "linalg_vector_norm", "mean", "nanmean"),
            *("nansum", "norm", "squeeze", "std", "std_mean", "sum", "var", "var_mean"),
        )
    },
    **{(f"fft_{name}2", "dim"): "Sequence[int]" for name in ("fft", "hfft", "ifft", "ihfft", "irfft", "rfft")},
    **{(f"fft_{name}fft", "n"): "int | None" for name in ("", "h", "i", "ih", "ir", "r")},
    **{(name, "size"): "Sequence[int]" for name in ("as_strided", "affine_grid", "broadcast_to", "sum_to_size")},
    **{(name, "size"): "int | Sequence[int] | None" for name in ("interpolate", "upsample")},
    **{(name, "stride"): f"{INTS} | None" for name in ("avg_pool1d", "avg_pool2d", "avg_pool3d")},
    **{(f"max_pool{n}d", "stride"): f"{INTS} | None" for n in (1, 2, 3)},
    **{(f"max_pool{n}d_with_indices", "stride"): f"{INTS} | None" for n in (1, 2, 3)},
    **{(f"lp_pool{n}d", "stride"): f"{INTS} | None" for n in (1, 2, 3)},
    **{(f"max_unpool{n}d", "stride"): f"{INTS} | None" for n in (1, 2, 3)},
    **{(name, "padding"): f"{INTS} | str" for name in ("conv1d", "conv2d", "conv3d")},
    **{(name, "source"): INTS for name in ("moveaxis", "movedim")},
    **{(name, "value"): "float" for name in ("threshold", "addcmul", "addcdiv")},
    ("as_strided", "stride"): "Sequence[int]",
    ("broadcast_to", "sizes"): INTS,
    ("batch_norm", "running_mean"): "Array | None",
    ("batch_norm", "running_var"): "Array | None",
    ("expand", "size"): INT,
    ("flip", "dims"): INT,
    ("getitem", "index"): "Any",
    ("setitem", "index"): "Any",
    ("gradient", "dim"): "int | Sequence[int] | None",
    ("grid_sample", "padding_mode"): "str",
    ("gumbel_softmax", "tau"): FLOAT,
    ("index_fill", "value"): "Operand",
    ("index_put", "indices"): "Sequence[Array | None]",
    ("linalg_cond", "p"): "float | str | None",
    ("linalg_matrix_norm", "dim"): "Sequence[int]",
    ("linalg_matrix_norm", "ord"): "float | str",
    ("linalg_matrix_rank", "atol"): "float | Array | None",
    ("linalg_matrix_rank", "rtol"): "float | Array | None",
    ("linalg_multi_dot", "tensors"): ARRAYS,
    ("linalg_pinv", "atol"): "float | Array | None",
    ("linalg_pinv", "rtol"): "float | Array | None",
    ("linalg_tensorsolve", "dims"): "Sequence[int] | None",
    ("local_response_norm", "beta"): FLOAT,
    ("local_response_norm", "k"): FLOAT,
    ("local_response_norm", "alpha"): FLOAT,
    ("mvlgamma", "p"): INT,
    ("norm", "p"): "float | str | None",
    ("pad", "value"): "float | None",
    ("multi_head_attention_forward", "value"): "Array",
    ("scaled_dot_product_attention", "value"): "Array",
    ("roll", "dims"): INTS,
    ("rot90", "dims"): "Sequence[int]",
    ("scatter", "reduce"): "str | None",
    **{
        (name, "reduce"): "bool | None"
        for name, function in vars(torch_signatures).items()
        if "size_average" in str(getattr(function, "__signature__", ""))
    },
    ("scatter", "src"): "Operand | None",
    ("scatter", "value"): "Number | None",
    ("swish", "beta"): "float | Array",
    ("t", "input"): "Array",
    ("tensor_split", "indices_or_sections"): f"{INTS} | Array",
    ("tensordot", "dims"): "int | Sequence[Sequence[int]]",
    ("unflatten", "sizes"): "Sequence[int]",
    ("polygamma", "n"): INT,
    ("float_power", "exponent"): "Operand",
    ("ldexp", "other"): "Operand",
    ("rrelu", "lower"): FLOAT,
    ("rrelu", "upper"): FLOAT,
    ("rsub", "other"): "Operand",
    ("lstm", "hx"): ARRAYS,
    ("lstm_cell", "hx"): ARRAYS,
    **{(name, "params"): ARRAYS for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    ("repeat", "repeats"): INT,
    ("bernoulli_", "p"): "float | Array",
    ("where", "input"): "Operand | None",
    ("where", "other"): "Operand | None",
    ("atleast_1d", "tensors"): "Array | Sequence[Array]",
    ("atleast_2d", "tensors"): "Array | Sequence[Array]",
    ("atleast_3d", "tensors"): "Array | Sequence[Array]",
    ("block_diag", "tensors"): "Array",
    ("broadcast_tensors", "tensors"): "Array | Sequence[Array]",
    ("cartesian_prod", "tensors"): "Array",
    ("meshgrid", "tensors"): "Array | Sequence[Array]",
}
"""The types of parameters that differ from the type of their name in ``TYPES``."""

PAIR = "tuple[Tensor, Tensor]"
MANY = "tuple[Tensor, ...]"
RETURNS = {
    **dict.fromkeys(("allclose", "equal"), BOOL),
    **dict.fromkeys(
        ("atleast_1d", "atleast_2d", "atleast_3d", "nonzero", "unique", "unique_consecutive", "where"), "Any"
    ),
    **dict.fromkeys(("broadcast_tensors", "chunk", "dsplit", "hsplit", "meshgrid", "tensor_split", "vsplit"), MANY),
    **dict.fromkeys(("unsafe_chunk", "unsafe_split"), MANY),
    **dict.fromkeys(("gru", "lstm_cell", "qr", "rnn_relu", "rnn_tanh", "triangular_solve"), PAIR),
    **dict.fromkeys(("lstm", "lu_unpack", "pca_lowrank", "svd", "svd_lowrank"), "tuple[Tensor, Tensor, Tensor]"),
    **{f"{kind}max_pool{n}d": f"Tensor | {PAIR}" for kind in ("", "adaptive_", "fractional_") for n in (1, 2, 3)},
    **{f"{kind}max_pool{n}d_with_indices": PAIR for kind in ("", "adaptive_", "fractional_") for n in (1, 2, 3)},
    "gradient": "list[Tensor]",
    "lu": MANY,
    "multi_head_attention_forward": "tuple[Tensor, Tensor | None]",
}
"""The return types of functions that are not rows and return something other than a single tensor."""

NO_NUMBERS = {"copy", "dist", "matmul", "maximum"}
"""Rows that broadcast, but for which a Python number as an operand is an error."""


class Parameters(NamedTuple):
    """The text of a parameter list, and the parameters without a type."""

    text: str
    unknown: list[str]


def behind(function: Any) -> Any:
    """The row of an in-place twin. A row or any other function is returned as it is."""
    return function.row if isinstance(function, InPlace) else function


def meant(name: str, function: Any) -> Any:
    """The function whose signature counts. If it hands its arguments on, that of its target: squeeze for squeeze_."""
    kinds = {one.kind for one in inspect.signature(function).parameters.values()}
    return vars(ops)[name.removesuffix("_")] if Parameter.VAR_KEYWORD in kinds else function


def returned(name: str, function: Any, overridden: str | None = None) -> str:
    """The annotation of what a function gives."""
    function = behind(function)
    if isinstance(function, Op):
        if function.many:
            return MANY
        return "Tensor" if function.returns is None else tuple_name(fields_of(function))
    return overridden or RETURNS.get(name, "Tensor")


def tuple_name(fields: tuple[str, ...]) -> str:
    """The name of a named tuple with these fields in the stubs: ValuesAndIndices."""
    return "And".join("".join(word[:1].upper() + word[1:] for word in field.split("_")) for field in fields)


def several() -> list[tuple[str, ...]]:
    """The field names of every named tuple that a row returns."""
    return sorted({fields_of(row) for row in map(behind, vars(ops).values()) if isinstance(row, Op) and row.returns})


def fields_of(row: Op) -> tuple[str, ...]:
    """The names of the outputs of a row."""
    return row.results[: row.shown]


def tuples() -> Iterator[str]:
    """The named tuples that rows give, as classes."""
    for fields in several():
        lines = "\n".join(f"    {field}: Tensor" for field in fields)
        yield f"\nclass {tuple_name(fields)}(NamedTuple):\n{lines}\n"


def parameters(name: str, function: Callable[..., Any], *, method: bool) -> Parameters:
    """The parameters of a function. The settings of a row can also be passed by position, as in torch and nbgrad.

    Args:
        name: what it is called.
        function: a row, an in-place twin, or a function.
        method: whether the first parameter is the tensor whose method it is.
    """
    row = behind(function)
    # The settings go by the row's own name: ``name`` may be another name of the row, or its in-place twin.
    own = row.name.removesuffix("_") if isinstance(row, Op) else name.removesuffix("_")
    parts, unknown, required_after = [], [], False
    given = [*inspect.signature(function).parameters.values()]
    if isinstance(row, Op):
        given = [_listed(one) for one in given]
    if method:
        given = given[1:]
        parts.append("self")
    optional = False
    for one in given:
        if one.kind is Parameter.KEYWORD_ONLY and not isinstance(row, Op) and not required_after:
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
            required_after = True
        default = one.default
        if optional and default is Parameter.empty and not required_after and one.kind not in _STARS:
            parts.append("*")
            required_after = True
        optional = optional or default is not Parameter.empty
        kind = _type(own, one, row)
        if kind is None:
            unknown.append(f"{one.name} of {name} (default {default!r})")
            kind = "Any"
        parts.append(_part(one, kind, row, method=method))
    return Parameters(", ".join(parts), unknown)


_STARS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def _listed(one: Parameter) -> Parameter:
    """The parameter as in torch's signature: a row's ``*tensors`` is one argument, a list."""
    return one.replace(kind=Parameter.POSITIONAL_OR_KEYWORD) if one.kind is Parameter.VAR_POSITIONAL else one


def _part(one: Parameter, kind: str, row: Any, *, method: bool) -> str:
    if isinstance(row, Op) and one.name == row.variadic:
        if method:
            return f"*{one.name}: {kind} | Sequence[{kind}]"
        kind = f"Sequence[{kind}]"
    if one.kind is Parameter.VAR_POSITIONAL:
        return f"*{one.name}: {kind}"
    if one.default is Parameter.empty:
        return f"{one.name}: {kind}"
    if one.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    shown = repr(one.default) if isinstance(one.default, bool | int | float | str | None | tuple) else "..."
    return f"{one.name}: {kind} = {shown}"


def _type(own: str, one: Parameter, row: Any) -> str | None:
    """The type of a parameter; None where nothing says it."""
    if (own, one.name) in EXCEPTIONS:
        return EXCEPTIONS[own, one.name]
    if isinstance(row, Op):
        if one.name == row.listed:
            return ARRAYS
        if one.name in row.inputs:
            number = one.name in row.stretched and one.name != row.inputs[0] and own not in NO_NUMBERS
            return "Operand" if number else "Array"
    elif one.name in TENSORS and type(one.default) not in {int, float}:
        return "Array"
    known = type(one.default).__name__ if type(one.default) in {bool, int, float, str} else None
    return TYPES.get(one.name, known)


_NEW = "dtype: torch.dtype | None = None, device: torch.device | str | None = None, requires_grad: bool = False"
_PLACE = "device: torch.device | str | int | None = None, dtype: torch.dtype | None = None"
_HOW = "non_blocking: bool = False, copy: bool = False, *, memory_format: torch.memory_format = torch.preserve_format"
_MEDIAN = [("", "Tensor"), ("dim: int, keepdim: bool = False", "ValuesAndIndices")]
_EXTREME = [*_MEDIAN, ("dim: Tensor | torch.Tensor", "Tensor"), ("*, other: Tensor | torch.Tensor", "Tensor")]
WAYS = {
    "__getitem__": [("index: Any", "Tensor")],
    "__setitem__": [("index: Any, value: Operand", "None")],
    "cpu": [("", "Tensor")],
    "cuda": [("device: torch.device | str | int | None = None", "Tensor")],
    "max": _EXTREME,
    "min": _EXTREME,
    "median": _MEDIAN,
    "nanmedian": _MEDIAN,
    "to": [
        (f"device: torch.device | str | int | None, dtype: torch.dtype | None = None, {_HOW}", "Tensor"),
        (f"dtype: torch.dtype, {_HOW}", "Tensor"),
        (f"other: Tensor | torch.Tensor, {_HOW}", "Tensor"),
        (f"*, {_PLACE}, {_HOW.replace('*, ', '')}", "Tensor"),
    ],
    "type_as": [("other: Tensor | torch.Tensor", "Tensor")],
    **{f"new_{kind}": [(f"*size: int | Sequence[int], {_NEW}", "Tensor")] for kind in ("empty", "ones", "zeros")},
    "new": [("*args: Any, device: torch.device | str | None = None", "Tensor")],
    "new_full": [(f"size: Sequence[int], fill_value: Number, *, {_NEW}", "Tensor")],
    "new_tensor": [(f"data: Any, *, {_NEW}", "Tensor")],
    "tile": [("*repeats: int | Sequence[int]", "Tensor"), ("*, dims: Sequence[int]", "Tensor")],
    "zero_": [("", "Tensor")],
}
"""Functions with several signatures: the parameters after the tensor, and the return type, for each signature."""

METHODS = {
    "view": [
        (takes, "Tensor") for takes in ("*size: int | Sequence[int]", "dtype: torch.dtype", "*, size: Sequence[int]")
    ],
    "where": [("condition: Tensor | torch.Tensor, other: Operand", "Tensor")],
}
"""Functions of that kind whose method takes its arguments in another order."""


def ways(name: str, function: Any, *, method: bool) -> tuple[list[tuple[str, str]], list[str]]:
    """For each way to call a function its parameter list and return type; and the parameters that have no type."""
    if name in CREATED and not method:
        return [(takes, "Tensor") for takes in CREATED[name]], []
    chosen = WAYS | METHODS if method else WAYS
    if name in chosen:
        first = "self" if method else "input: Array"
        return [(", ".join(filter(None, (first, rest))), gives) for rest, gives in chosen[name]], []
    text, unknown = parameters(name, meant(name, function), method=method)
    return [(text, returned(name, function))], unknown


def written(name: str, takes: str, gives: str, doc: str, *, overloaded: bool = False, indent: str = "    ") -> str:
    """A function of a stub, with its docstring."""
    lines = inspect.cleandoc(doc).split("\n")
    quotes = 'r"""' if "\\" in doc else '"""'
    body = "\n".join(f"{indent}    {line}" if line else "" for line in lines).strip()
    end = f'\n{indent}    """' if len(lines) > 1 else '"""'
    decorator = f"{indent}@overload\n" if overloaded else ""
    return f"{decorator}{indent}def {name}({takes}) -> {gives}:\n{indent}    {quotes}{body}{end}\n"
