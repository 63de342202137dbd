"""Shared parts of the rules whose kernel returns the gradients of several inputs in one call."""


def spread(given, mask):
    """One entry for each place of ``mask``: the next one of ``given`` where it is true, None elsewhere."""
    rest = iter(given)
    return tuple([next(rest) if asked else None for asked in mask])


def asked(results, mask):
    """The results of a kernel that ``mask`` asked for."""
    return tuple([result for result, wanted in zip(results, mask, strict=True) if wanted])


def total(*terms):
    """The sum of the terms that are there; None if none is."""
    there = [term for term in terms if term is not None]
    result = there[0] if there else None
    for term in there[1:]:
        result = result + term
    return result


def per_dim(value, rank):
    """A setting that is one number for all dimensions, or one for each, as a list with one for each.

    Raises:
        RuntimeError: there are more numbers than dimensions, or fewer.
    """
    if isinstance(value, int):
        return [value] * rank
    numbers = list(value)
    if len(numbers) not in {1, rank}:
        raise RuntimeError(f"expected one number, or one for each of {rank} dimensions, got {value}")
    return numbers * rank if len(numbers) == 1 else numbers


def step(stride, kernel_size):
    """By how much a window moves: by default its size. A stride of 0 is not the default: torch refuses it."""
    return kernel_size if stride is None or stride in ((), []) else stride


def shaped(like, shape):
    """A tensor for a kernel that wants to know an input's shape and nothing else: it takes no memory."""
    return like.new_empty(()).expand(shape)
