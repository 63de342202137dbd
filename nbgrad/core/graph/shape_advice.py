"""Advice on torch's errors about shapes: a layer for other numbers, classes in the wrong dimension, a batch too few.

Torch's message has numbers. The advice says which layer or tensor has which, and what to write. The shapes come from
the operands of the op that raised, and from the variables of torch's own functions while the traceback is there.
"""

import dis
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nbgrad.core.engine.explanation import Explanation
from nbgrad.core.engine.place import Place
from nbgrad.core.graph.advice import is_library
from nbgrad.core.graph.record import Failure

_TORCH = str(Path(torch.__file__).parent)

Shape = tuple[int, ...]


class ShapeError(NamedTuple):
    """An error about shapes.

    Attributes:
        match: of the pattern in torch's message.
        failure: the op that raised; None if the check of a module or a function did.
        known: the tensors and modules that are variables of torch's functions through which the error went; of those
            of one name the innermost.
    """

    match: re.Match[str]
    failure: Failure | None
    known: Mapping[str, Any]

    @property
    def module(self) -> torch.nn.Module | None:
        """The innermost module of torch's that ran."""
        found = self.known.get("self")
        return found if isinstance(found, torch.nn.Module) else None

    def layer(self, other: str = "the layer") -> str:
        """The class of the module; ``other`` where a function was called."""
        return other if self.module is None else type(self.module).__name__

    @property
    def given(self) -> str:
        """The input of the layer in words, with its shape where that is known."""
        shape = self.shape("input")
        return "its input" if shape is None else f"its input {shape}"

    def numbers(self) -> list[int]:
        """The groups of the pattern, which are whole numbers."""
        return [int(one) for one in self.match.groups()]

    def shape(self, name: str, at: int = 0) -> Shape | None:
        """The shape of the argument ``name`` of a function of torch's, or of the operand ``at`` of the op."""
        held = self.known.get(name)
        if isinstance(held, torch.Tensor):
            return tuple(held.shape)
        operands = () if self.failure is None else self.failure.operands
        return operands[at].shape if at < len(operands) else None

    def name(self, at: int, other: str) -> str:
        """The name of the operand ``at``; ``other`` where it has none."""
        operands = () if self.failure is None else self.failure.operands
        return (operands[at].name if at < len(operands) else None) or other


Words = tuple[str, str]
"""A text that ends with the remedy, and the remedy alone."""


def shape_advice(error: BaseException, failure: Failure | None) -> Explanation | None:
    """The explanation of an error of torch's about shapes; None if it is another one, or not known."""
    found = None
    with suppress(Exception):  # an error must never hide the one that it explains
        found = _advice(error, failure)
    return found


def _advice(error: BaseException, failure: Failure | None) -> Explanation | None:
    said, (known, place, raises) = str(error), _variables(error)
    if failure is None and raises:
        return None
    for pattern, advise in _KNOWN:
        if (match := re.search(pattern, said)) is not None:
            words = advise(ShapeError(match, failure, known))
            return words and Explanation(*words, place)
    return None


def _variables(error: BaseException) -> tuple[dict[str, Any], Place | None, bool]:
    """The variables of torch's functions below the user's innermost line; that line; whether it raised the error."""
    known: dict[str, Any] = {}
    place, raises, trace = None, False, error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not is_library(frame):
            known, place = {}, Place(frame.f_code, trace.tb_lasti)
            raises = dis.opname[frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"
        elif frame.f_code.co_filename.startswith(_TORCH):
            kinds = (torch.Tensor, torch.nn.Module)
            known |= {name: value for name, value in frame.f_locals.items() if isinstance(value, kinds)}
            raises = False
        trace = trace.tb_next
    return known, place, raises


def _product(case: ShapeError) -> Words | None:
    """A matrix product whose inner sizes differ."""
    rows, inner, other, columns = case.numbers()
    module, shape = case.module, case.shape("input")
    if isinstance(module, torch.nn.Linear):
        return _features(module, shape or (rows, inner))
    if case.failure is not None and case.failure.op == "linear":
        return (
            f"the last dimension of the input has {inner} numbers, and the weight takes {other}: give it a weight of "
            f"shape ({columns}, {inner})",
            f"({columns}, {inner})",
        )
    a, b = case.name(0, "a"), case.name(1, "b")
    if case.failure is not None and case.failure.op == "addmm":
        a, b = case.name(1, "a"), case.name(2, "b")
    text = f"a row of {a} has {inner} numbers, and a column of {b} has {other}; a matrix product needs as many"
    if inner == columns:
        return f"{text}. Transpose {b}: {a} @ {b}.T", f"{a} @ {b}.T"
    if rows == other:
        return f"{text}. Transpose {a}: {a}.T @ {b}", f"{a}.T @ {b}"
    return text, ""


def _features(module: torch.nn.Linear, shape: Shape) -> Words:
    """A linear layer gets an input with another number of features."""
    taken, made = module.in_features, module.out_features
    layer = f"Linear({taken}, {made})"
    text = f"the last dimension of its input {shape} has {shape[-1]} numbers, and {layer} takes {taken}"
    together = [at for at in range(1, len(shape) - 1) if prod(shape[at:]) == taken]
    if together:
        whole, remedy = " x ".join(map(str, shape[together[0] :])), f"x.flatten({together[0]})"
        return f"{text}, which is {whole}. Before the layer, write {remedy}", remedy
    if shape[-1] == made:
        remedy = f"Linear({made}, {taken})"
        return f"{text}: are its two sizes exchanged? Then make it {remedy}", remedy
    if len(shape) > 1 and shape[-2] == taken:
        return f"{text}, the size of the dimension before it. Write x.transpose(-1, -2)", "x.transpose(-1, -2)"
    remedy = f"Linear({shape[-1]}, {made})"
    return f"{text}. Make it {remedy}, or change what comes before it", remedy


def _channels(case: ShapeError) -> Words:
    """A convolution gets an input with another number of channels."""
    expected, got = case.numbers()
    name, shape, shown = case.layer("the convolution"), case.shape("input"), case.given
    rank = len(getattr(case.module, "kernel_size", ())) or (len(shape) - 2 if shape is not None else 0)
    if shape is not None and len(shape) == rank + 2 and shape[-1] == expected and expected not in shape[1:-1]:
        remedy = f"x.permute({', '.join(map(str, (0, rank + 1, *range(1, rank + 1))))})"
        text = f"{name} takes the channels in dimension 1, and {shown} has {expected} numbers in the last one"
        return f"{text}. If these are the channels, write {remedy}", remedy
    if shape is not None and len(shape) == rank + 1:
        remedy = "x.unsqueeze(1)" if expected == 1 else "x.unsqueeze(0)"
        which = "each image has one channel" if expected == 1 else "it is one image"
        text = f"{shown} has no dimension for the batch, so its first one, {got}, counts as channels. If {which}, write"
        return f"{text} {remedy}", remedy
    remedy = f"in_channels={got}"
    return f"{shown} has {got} channels in dimension 1, and {name} takes {expected}. Make it {remedy}", remedy


def _elementwise(case: ShapeError) -> Words | None:
    """Two shapes that do not broadcast."""
    found = _pair(case)
    if found is None:
        return None
    (first, a), (second, b) = found
    (long, more), (short, less) = sorted(found, key=lambda one: -len(one[0]))
    text = f"{a} has shape {first}, and {b} {second}: sizes are compared from the last one on"
    if len(short) < len(long) and short == long[: len(short)]:
        remedy = less + ".unsqueeze(-1)" * (len(long) - len(short))
        return f"{text}. If {less} has a number for each row of {more}, write {remedy}", remedy
    differ = [at for at in range(-len(short), 0) if short[at] != long[at] and 1 not in (short[at], long[at])]
    if len(first) == len(second) and case.failure is not None and case.failure.op in ("add", "sub", "add_"):
        if len(first) >= 4 and any(at >= 2 - len(first) for at in differ):
            remedy = "padding='same'"
            return f"{text}. If one is a convolution of the other, {remedy} keeps height and width", remedy
        if differ == [1 - len(first)]:
            layer = f"Conv{len(first) - 2}d" if len(first) > 2 else "Linear"
            remedy = f"{layer}({first[1]}, {second[1]}{', 1' if len(first) > 2 else ''})"
            return f"{text}. If {a} is a shortcut, bring it to the other's {second[1]} features with {remedy}", remedy
    if first == second[::-1] and len(first) == 2:
        return f"{text}. If {b} is transposed, write {b}.T", f"{b}.T"
    sizes = " and ".join(f"{long[at]} and {short[at]} in dimension {at}" for at in differ)
    return f"{text}, and differ there by {sizes}", ""


def _pair(case: ShapeError) -> tuple[tuple[Shape, str], tuple[Shape, str]] | None:
    """Shapes and names of the two operands with the sizes in the message; None if these are of a result in between."""
    a, b, at = case.numbers()
    operands = () if case.failure is None else case.failure.operands
    shapes = [one.shape for one in operands[:2]] or [case.shape("input"), case.shape("target")]
    if len(shapes) < 2 or shapes[0] is None or shapes[1] is None:
        return None
    first, second = shapes[0], shapes[1]
    back = at - max(len(first), len(second))
    if back < -min(len(first), len(second)) or (first[back], second[back]) not in ((a, b), (b, a)):
        return None
    return (first, case.name(0, "a")), (second, case.name(1, "b"))


def _batches(case: ShapeError) -> Words | None:
    """A product of batches of matrices whose inner sizes differ."""
    first, second = case.shape("input"), case.shape("other", 1)
    if first is None or second is None:
        return None
    a, b = case.name(0, "a"), case.name(1, "b")
    text = f"{a} has shape {first}, and {b} {second}: the last size of {a} has to be the last but one of {b}"
    if first[-1] == second[-1] != second[-2]:
        remedy = f"{a} @ {b}.transpose(-1, -2)"
        return f"{text}. For the products of all rows, write {remedy}", remedy
    return (text, "") if first[-1] != second[-2] else (f"{text}, and the sizes before have to be equal", "")


def _column(case: ShapeError) -> Words | None:
    """Targets of classes with more than one dimension."""
    wanted, shape = case.shape("target", 1), case.shape("input")
    if wanted is None or shape is None:
        return None
    text = f"cross_entropy takes one class number for each of the {shape[0]} rows, and the targets have shape {wanted}"
    if wanted[-1] == 1:
        return f"{text}. Write target.squeeze(-1)", "target.squeeze(-1)"
    return f"{text}. If they are one-hot, write target.argmax(-1)", "target.argmax(-1)"


def _probabilities(case: ShapeError) -> Words:  # noqa: ARG001
    text = "targets in the shape of the scores are probabilities, which are floats. Write target.float(), or the class"
    return f"{text} numbers, target.argmax(-1)", "target.float()"


def _group(case: ShapeError) -> Words:
    """A group norm gets another number of channels."""
    expected, got = case.numbers()
    remedy = f"num_channels={got}"
    return f"its input has {got} channels in dimension 1, and the norm takes {expected}. Make it {remedy}", remedy


def _rows(case: ShapeError) -> Words:
    """A loss gets more rows than targets, or fewer."""
    scores, targets = case.numbers()
    text = f"there are {scores} rows of scores and {targets} targets"
    shape, wanted = case.shape("input"), case.shape("target", 1)
    if shape is not None and wanted is not None:
        text = f"the scores {shape} have {scores} rows, and the targets {wanted} {targets}"
        if prod(wanted) == scores:
            return f"{text}: one for each place. Write target.flatten()", "target.flatten()"
        if prod(shape[:-1]) == targets:
            return f"{text}: one for each place. Write scores.flatten(0, -2)", "scores.flatten(0, -2)"
    if scores % targets == 0:
        text = f"{text}: a view() before it has changed the number of rows"
        return f"{text}. flatten(1) keeps it", "flatten(1)"
    return f"{text}: give both the same batch", ""


def _places(case: ShapeError) -> Words:
    """The classes of a sequence are not in dimension 1."""
    shape, wanted = case.shape("input"), case.shape("target", 1)
    shown = "the scores" if shape is None else f"the scores {shape}"
    text = f"cross_entropy takes the classes in dimension 1 of {shown}, and a class number for each of the other places"
    if shape is None or wanted is None or len(shape) < 3 or shape[0] != wanted[0] or shape[1:-1] != wanted[1:]:
        return text, ""
    remedy = f"cross_entropy(scores.flatten(0, {len(shape) - 2}), target.flatten())"
    return f"{text}. Here they are in the last one: write {remedy}", remedy


def _class(case: ShapeError) -> Words:
    """A class number for which there is no score."""
    (number,) = case.numbers()
    shape = case.shape("input")
    if shape is None:
        return f"class {number} needs at least {number + 1} scores for each row", f"{number + 1}"
    many = shape[1] if len(shape) > 1 else shape[0]
    text = f"with {many} scores for each row the classes are 0 to {many - 1}, and the targets contain {number}"
    if number == many:
        text = f"{text}. If they count from 1, write target - 1"
        return f"{text}; otherwise the last layer needs {number + 1} outputs", "target - 1"
    if number < 0:
        return f"{text}. If that marks what does not count, write ignore_index={number}", f"ignore_index={number}"
    return f"{text}. The last layer needs {number + 1} outputs, or the targets are no class numbers", f"{number + 1}"


def _loss_shapes(case: ShapeError) -> Words | None:
    """A loss that wants both inputs in one shape."""
    target, given = (tuple(map(int, re.findall(r"\d+", one))) for one in case.match.groups())
    text = f"the scores have shape {given}, and the targets {target}"
    if given == (*target, 1):
        return f"{text}. Write scores.squeeze(-1), or target.unsqueeze(-1)", "scores.squeeze(-1)"
    if target == (*given, 1):
        return f"{text}. Write target.squeeze(-1)", "target.squeeze(-1)"
    if len(given) == 2 and target == given[:1]:
        return (
            f"{text}: class numbers belong to cross_entropy; this loss takes a number for each score, as "
            f"one_hot(target, {given[1]}).float()",
            f"one_hot(target, {given[1]}).float()",
        )
    return f"{text}: give both one shape", ""


def _rows_of_table(case: ShapeError) -> Words | None:
    """An index beyond the rows of an embedding."""
    indices, weight = case.known.get("input"), case.known.get("weight")
    if not isinstance(indices, torch.Tensor) or not isinstance(weight, torch.Tensor):
        return None
    low, high, rows = int(indices.min()), int(indices.max()), len(weight)
    text = f"the indices go from {low} to {high}, and an embedding of {rows} rows takes 0 to {rows - 1}"
    if low < 0:
        return f"{text}. Give what is missing a row of its own, as with padding_idx", "padding_idx"
    remedy = f"Embedding({high + 1}, {weight.shape[1]})"
    return f"{text}. Make it at least {remedy}: the size of the vocabulary", remedy


def _no_indices(case: ShapeError) -> Words:  # noqa: ARG001
    return "an embedding takes row numbers: whole numbers of type long. Write x.long()", "x.long()"


def _whole_numbers(case: ShapeError) -> Words:  # noqa: ARG001
    text = "the input holds whole numbers, and the layer floats: convert the data before the model, as in x ="
    return f"{text} x.float()", "x.float()"


def _size(case: ShapeError) -> Words:
    """A view with another number of elements."""
    wanted, many = [int(one) for one in case.match[1].split(",")], int(case.match[2])
    shape = case.shape("self")
    text = f"a tensor of {many} numbers" if shape is None else f"a tensor of shape {shape}, which are {many} numbers,"
    if -1 in wanted:
        text = f"{text} does not divide into {prod(one for one in wanted if one != -1)}"
        return f"{text}. x.flatten(1) keeps the batch and joins the rest, whatever its size is", "x.flatten(1)"
    text = f"{text} has no shape {tuple(wanted)}, which are {prod(wanted)}"
    row = prod(wanted[1:])
    if len(wanted) > 1 and row and many % row == 0:
        remedy = f"({', '.join(map(str, (-1, *wanted[1:])))})"
        return f"{text}. If the first size is the batch, leave it open: {remedy}", remedy
    return f"{text}. x.flatten(1) keeps the batch and joins the rest", "x.flatten(1)"


def _recurrent(case: ShapeError) -> Words:
    """A recurrent layer gets an input with another number of features."""
    expected, got = case.numbers()
    name, shape, shown = case.layer(), case.shape("input"), case.given
    if shape is not None and shape.count(expected) == 1 and len(shape) == 3:
        text = f"{name} takes its {expected} features in the last dimension, and {shown} has them in dimension"
        at = shape.index(expected)
        return f"{text} {at}. Write x.transpose({at}, 2)", f"x.transpose({at}, 2)"
    remedy = f"input_size={got}"
    return f"{shown} has {got} features in its last dimension, and {name} takes {expected}. Make it {remedy}", remedy


def _hidden(case: ShapeError) -> Words:
    """The first state of a recurrent layer has another shape."""
    wanted, given = (tuple(map(int, re.findall(r"\d+", one))) for one in case.match.groups())
    module, shape = case.module, case.shape("input")
    text = f"the state has shape {given}, and for this input it is (layers x directions, batch, hidden) = {wanted}"
    first = bool(getattr(module, "batch_first", False))
    if shape is not None and len(shape) == len(given) == 3 and given[1] == shape[1 if first else 0] != wanted[1]:
        remedy, batch = f"batch_first={not first}", 0 if first else 1
        return f"{text}. The layer takes dimension {batch} of {shape} for the batch: is {remedy} meant?", remedy
    return f"{text}. Without a state the layer begins with zeros", ""


def _running(case: ShapeError) -> Words:
    """A batch norm gets another number of channels."""
    got, expected = case.numbers()
    name, shape, shown = case.layer("the batch norm"), case.shape("input"), case.given
    if shape is not None and len(shape) > 2 and shape[-1] == expected:
        text = f"{name} takes its {expected} channels in dimension 1, and {shown} has them in the last one"
        return f"{text}. Write x.transpose(1, -1)", "x.transpose(1, -1)"
    remedy = f"{name}({got})"
    return f"{shown} has {got} channels in dimension 1, and {name} takes {expected}. Make it {remedy}", remedy


def _one_row(case: ShapeError) -> Words:  # noqa: ARG001
    remedy = "drop_last=True"
    text = "a batch norm in train mode needs more than one row, and the last batch of a loader may have one"
    return f"{text}. Give the loader {remedy}, or call eval() for a single input", remedy


def _ranks(case: ShapeError) -> Words | None:
    """A batch norm of another number of dimensions."""
    got, module = int(case.match[2]), case.module
    made = {2: "BatchNorm1d", 3: "BatchNorm1d", 4: "BatchNorm2d", 5: "BatchNorm3d"}.get(got)
    if module is None or made is None or "BatchNorm" not in type(module).__name__:
        return None
    return f"its input has {got} dimensions, as (batch, channels{', ...' if got > 2 else ''}). Make it {made}", made


def _normalized(case: ShapeError) -> Words:
    """A layer norm gets another number of features."""
    expected, size = case.numbers()
    return _last(size, expected, f"LayerNorm({size})")


def _embedding_size(case: ShapeError) -> Words:
    """Attention gets an input with another number of features."""
    expected, size = case.numbers()
    return _last(size, expected, f"embed_dim={size}")


def _last(size: int, taken: int, remedy: str) -> Words:
    return f"the last dimension of its input has {size} numbers, and the layer takes {taken}. Make it {remedy}", remedy


def _joined(case: ShapeError) -> Words:
    """Tensors that are joined along one dimension differ in another one."""
    along, first, other, number = case.numbers()
    text = f"cat joins along dimension {along}, and all other sizes have to be equal: tensor {number} has {other} where"
    text = f"{text} the first has {first}. Images of two sizes are brought to one by interpolate(size=...) or padding"
    return f"{text}. If that is the dimension to join, write its number as dim", "dim"


def _stacked(case: ShapeError) -> Words:  # noqa: ARG001
    remedy = "torch.nn.utils.rnn.pad_sequence"
    return f"stack takes tensors of one shape; sequences of different lengths are brought to one by {remedy}", remedy


def _too_small(case: ShapeError) -> Words:
    """The kernel does not fit on what is left of an image."""
    shape = case.shape("input")
    shown = "what is left of the image" if shape is None else f"its input {shape}"
    text = f"{shown} is smaller than the kernel: each pooling and stride before it has made it smaller. Pool less often"
    return f"{text}, add padding, or give larger images", "padding"


def _index_rank(case: ShapeError) -> Words | None:
    """An index for gather has fewer dimensions than the tensor."""
    index = case.shape("index", 2) or case.shape("index", 1)
    name = "index" if index is None else f"index {index}"
    remedy = "index.unsqueeze(1)"
    return f"the {name} needs as many dimensions as the tensor. For one number of each row, write {remedy}", remedy


_KNOWN: tuple[tuple[str, Callable[[ShapeError], Words | None]], ...] = (
    (r"mat1 and mat2 shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x(\d+)\)", _product),
    (r"expected input\[[\d, ]+\] to have (\d+) channels, but got (\d+) channels", _channels),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\) at .*dimension (\d+)", _elementwise),
    (r"first two dimensions of batch2 tensor to be: \[\d+, \d+\]", _batches),
    (r"floating point type for target with class probabilities, got (?:Long|Int)", _probabilities),
    (r"0D or 1D target tensor expected, multi-target not supported", _column),
    (r"weight to be a vector .* weight of shape \[(\d+)\] and input of shape \[\d+, (\d+)", _group),
    (r"Expected input batch_size \((\d+)\) to match target batch_size \((\d+)\)", _rows),
    (r"Expected target size \[[\d, ]+\], got \[[\d, ]+\]", _places),
    (r"Target (-?\d+) is out of bounds", _class),
    (r"Target size \(torch\.Size\((.*?)\)\) must be the same as input size \(torch\.Size\((.*?)\)\)", _loss_shapes),
    (r"index out of range in self", _rows_of_table),
    (r"argument #1 'indices' to have one of the following scalar types: Long, Int", _no_indices),
    (r"mat1 and mat2 must have the same dtype, but got (?:Long|Int|Byte|Bool) and", _whole_numbers),
    (r"shape '\[([-\d, ]+)\]' is invalid for input of size (\d+)", _size),
    (r"input\.size\(-1\) must be equal to input_size\. Expected (\d+), got (\d+)", _recurrent),
    (r"Expected hidden(?:\[\d\])? size \(([\d, ]+)\), got \[([\d, ]+)\]", _hidden),
    (r"running_mean should contain (\d+) elements not (\d+)", _running),
    (r"Expected more than 1 value per channel when training", _one_row),
    (r"expected (\d\w*(?: or \d\w*)?) input \(got (\d)D input\)", _ranks),
    (
        r"Given normalized_shape=\[(\d+)\].* but got input of size\[(?:\d+, )*(\d+)\]",
        _normalized,
    ),
    (r"was expecting embedding dimension of (\d+), but got (\d+)", _embedding_size),
    (r"must match except in dimension (\d+)\. Expected size (\d+) but got size (\d+) for tensor number (\d+)", _joined),
    (r"stack expects each tensor to be equal size", _stacked),
    (r"Kernel size can't be greater than actual input size|Output size is too small", _too_small),
    (r"Index tensor must have the same number of dimensions as input tensor", _index_rank),
)
"""Patterns of messages, each with the function that knows the advice."""
