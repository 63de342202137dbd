"""Einstein's summation: products of tensors, summed over the indices that the result does not have."""

from string import ascii_letters, ascii_lowercase, ascii_uppercase

import torch

from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.linalg.diagonals import diag_embed, diagonal
from nbgrad.core.tensor.tensor import Tensor


def _sums(make: Make):
    for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 1, 4)),
        ("i,i", (3,), (3,)),
        ("i,j->ij", (3,), (2,)),
        ("ij->ji", (2, 3)),
        ("ba", (2, 3)),
        ("ij->", (2, 3)),
        ("ij->j", (2, 3)),
        ("ii->i", (3, 3)),
        ("ii", (3, 3)),
        ("iij,jk->ik", (2, 2, 3), (3, 4)),
        ("iii,i->i", (2, 2, 2), (2,)),
        ("ij,ij->ij", (2, 3), (1, 3)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
        ("ij,jk->i", (2, 3), (3, 4)),
        ("...ij,...jk->...ik", (5, 1, 2, 3), (4, 3, 2)),
        ("...i->...", (1, 2, 2, 1, 3)),
        ("i...,i...", (3, 2), (3, 1)),
        ("i...j->...", (2, 4, 3)),
        (",i->i", (), (3,)),
        (" a b , b -> a ", (2, 3), (3,)),
        ("ij,jk->ik", (2, 0), (0, 4)),
        ("ij,jk->ik", (0, 3), (3, 4)),
    ):
        yield Sample.of(*[make(*shape) for shape in shapes], equation=equation)


@op(
    formula=r"\sum \prod_n x_n",
    symbols={"operands": r"\prod_n x_n"},
    samples=_sums,
    name="einsum",
    traits=Traits(multiplies=True),
    reference=lambda *operands, equation: torch.einsum(equation, *operands),
)
def row(*operands, equation):
    """Products of tensors, summed over the indices that the result does not have, as the equation says.

    "bhqd,bhkd->bhqk" makes the scores of attention of queries and keys. An index that an operand has twice picks its
    diagonal, and an ellipsis stands for dimensions that broadcast.

    Shapes: output has the sizes of its indices. Raises RuntimeError where an index has two sizes, neither of them 1.
    """
    out = torch.einsum(equation, *operands)
    if len(operands) == 1 and memory_of(out) == memory_of(operands[0]):
        return out.clone()  # with several operands it is no view, so with one it is none either
    return out


@row.joint_rule(operands=r"\sum \bar{y} \prod_{m \neq n} x_m")
def _(g, needed, operands_others, operands_shape, equation):
    inputs, output = _indices(equation, [len(shape) for shape in operands_shape])
    sizes: dict[int, int] = {}
    for labels, shape in zip(inputs, operands_shape, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    return [
        _gradient(g, position, tuple(operands_shape[position]), operands_others, inputs, output, sizes)
        if wanted
        else None
        for position, wanted in enumerate(needed)
    ]


def _gradient(g, position, shape, operands, inputs, output, sizes):
    """The gradient of one operand: the product of that of the output and all others, summed over the other indices."""
    mine = inputs[position]
    others = [
        (labels, operand) for i, (labels, operand) in enumerate(zip(inputs, operands, strict=True)) if i != position
    ]
    elsewhere = {*output, *[label for labels, _ in others for label in labels]}
    own = dict(zip(mine, shape, strict=True))
    # A broadcast is summed, and dimensions that were summed in this operand alone are stretched again.
    found = [label for label in own if label in elsewhere and own[label] == sizes[label]]
    # Factors of several element types are multiplied in that of the output.
    terms = [(output, g), *[(labels, one if one.dtype is g.dtype else one.to(dtype=g.dtype)) for labels, one in others]]
    result = einsum(_written([labels for labels, _ in terms], found), *[term for _, term in terms])
    result = result.reshape(tuple(result.shape[found.index(label)] if label in found else 1 for label in own))
    result = result.expand(tuple(own.values()))
    return result if len(own) == len(mine) else _on_the_diagonals(result, list(own), mine)


def _on_the_diagonals(x, labels, wanted):
    """A tensor that has each index once, put on the diagonals of one that has some of them several times."""
    labels = list(labels)
    for label in dict.fromkeys(wanted):
        for _ in range(wanted.count(label) - 1):
            # The last dimension of that index becomes the diagonal of two.
            last = len(labels) - 1 - labels[::-1].index(label)
            order = [d for d in range(len(labels)) if d != last] + [last]
            x = diag_embed(x.permute(order))
            labels = [labels[d] for d in order] + [label]
    places = {label: [d for d, one in enumerate(labels) if one == label] for label in labels}
    return x.permute([places[label].pop(0) for label in wanted])


def _indices(equation, ranks):
    """The indices of each operand and of the output as numbers, with one for each dimension of an ellipsis."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    named = [term.replace("...", "") for term in terms]
    widest = max(
        (rank - len(names) for rank, names, term in zip(ranks, named, terms, strict=True) if "..." in term), default=0
    )
    if not arrow:
        once = sorted(name for name in set("".join(named)) if "".join(named).count(name) == 1)
        right = ("..." if "..." in left else "") + "".join(once)

    def numbers(term, width):
        before, ellipsis, after = term.partition("...")
        dots = range(-width, 0) if ellipsis else ()
        return [*map(ord, before), *dots, *map(ord, after)]

    inputs = [numbers(term, rank - len(names)) for term, rank, names in zip(terms, ranks, named, strict=True)]
    return inputs, numbers(right, widest)


def _written(inputs, output):
    """An equation of these indices."""
    labels = dict.fromkeys(label for term in inputs for label in term)
    letters = dict(zip(labels, ascii_letters, strict=False))
    return (
        ",".join("".join(letters[one] for one in term) for term in inputs)
        + "->"
        + "".join(letters[one] for one in output)
    )


def einsum(equation, *operands):
    """Products of tensors, summed over the indices that the result does not have.

    Args:
        equation: the indices of each operand and of the result, ``"ij,jk->ik"``; or the first operand, after which
            come its indices as a list of numbers, the next operand and its indices, and so on, and last those of the
            result.
        operands: the tensors, or one list of them.
    """
    if not isinstance(equation, str):
        equation, operands = _from_lists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if len(operands) == 1 and isinstance(operands[0], Tensor):
        raw = operands[0].data
        labels, output = _indices(equation, [raw.ndim])
        if set(labels[0]) == set(output) and memory_of(torch.einsum(equation, raw)) == memory_of(raw):
            return _seen(operands[0], labels[0], output)
    return row(operands, equation=equation)


def _seen(x, labels, output):
    """The einsum that only picks diagonals and changes the order of dimensions: a view, as torch's is."""
    labels = list(labels)
    for label in output:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            x = diagonal(x, offset=0, dim1=first, dim2=second)
            del labels[second], labels[first]
            labels.append(label)
    return x.permute(tuple(labels.index(label) for label in output))


def _from_lists(args):
    """The equation and the operands of ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""

    def text(indices):
        return "".join("..." if one is Ellipsis else (ascii_uppercase + ascii_lowercase)[one] for one in indices)

    equation = ",".join(text(indices) for indices in args[1::2])
    if len(args) % 2:
        equation += "->" + text(args[-1])
    return equation, args[: len(args) // 2 * 2 : 2]
