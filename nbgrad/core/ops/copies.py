"""Views that are copied at once: torch's ops with _copy in their names, and those it calls unsafe."""

from inspect import signature

from nbgrad.core.op import install
from nbgrad.core.ops.diagonals import diagonal
from nbgrad.core.ops.dimensions import permute, t, transpose
from nbgrad.core.ops.shape import clone, expand, squeeze, unsqueeze, view
from nbgrad.core.ops.splitting import chunk, narrow, split, split_with_sizes, unbind
from nbgrad.core.ops.windows import as_strided, unfold


def _copying(name, viewing):
    """``viewing`` with every tensor that it gives in memory of its own; both steps are recorded."""

    def copied(*args, **settings):
        given = viewing(*args, **settings)
        return tuple(clone(one) for one in given) if isinstance(given, tuple | list) else clone(given)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"What ``{name.removesuffix('_copy')}`` gives, in memory of its own."
    copied.__signature__ = signature(viewing)  # type: ignore[attr-defined]  # what help() shows
    return copied


as_strided_copy = _copying("as_strided_copy", as_strided)
diagonal_copy = _copying("diagonal_copy", diagonal)
expand_copy = _copying("expand_copy", expand)
narrow_copy = _copying("narrow_copy", narrow)
permute_copy = _copying("permute_copy", permute)
split_with_sizes_copy = _copying("split_with_sizes_copy", split_with_sizes)
squeeze_copy = _copying("squeeze_copy", squeeze)
t_copy = _copying("t_copy", t)
transpose_copy = _copying("transpose_copy", transpose)
unbind_copy = _copying("unbind_copy", unbind)
unfold_copy = _copying("unfold_copy", unfold)
unsqueeze_copy = _copying("unsqueeze_copy", unsqueeze)
view_copy = _copying("view_copy", view)


def alias_copy(input):
    """A copy."""
    return clone(input)


def unsafe_chunk(input, chunks, dim=0):
    """What ``chunk`` gives, each in memory of its own."""
    return tuple(clone(one) for one in chunk(input, chunks, dim))


def unsafe_split(input, split_size_or_sections, dim=0):
    """What ``split`` gives, each in memory of its own."""
    return tuple(clone(one) for one in split(input, split_size_or_sections, dim))


for _name in ("narrow_copy", "unsafe_chunk", "unsafe_split"):
    install(_name, globals()[_name])
