# cython: language_level=3
"""The least that a recorder of torch's calls can do: for each op a fact, with the facts of its inputs.

It knows no name, no line, no settings, no module and no leaf. It has nothing to show, and drops old facts all at once.
"""

cimport cython
import torch
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor

cdef object _current = torch._C._current_autograd_node
cdef object _KEY = "least recorder"
cdef Py_ssize_t _MOST = 256  # facts


@cython.freelist(256)
cdef class Fact:
    """An op: the function, the facts of its inputs, the shape, the numbers and the gradient of its result."""

    cdef object function, gradient, numbers, shape
    cdef list inputs


cdef Fact known(Tensor tensor):
    """The fact of the op that made ``tensor``."""
    cdef AnyNode made
    cdef dict metadata
    found = tensor.grad_fn
    if found is None:
        return None
    made = found
    metadata = made.metadata
    return metadata.get(_KEY)


cdef class Mode:
    """Stands on torch's stack of modes for functions.

    Args:
        keeps: whether it keeps the numbers and the gradients of small results.
    """

    cdef bint keeps
    cdef readonly list facts
    cdef object holder

    def __init__(self, bint keeps):
        self.keeps = keeps
        self.facts = []
        self.holder = torch.zeros((), requires_grad=True)
        self.holder._backward_hooks = {0: self.arrived}

    def __torch_function__(self, function, types, tuple args=(), kwargs=None):
        """Run ``function``, and keep its fact if torch recorded it."""
        cdef Tensor out
        cdef AnyNode made
        cdef dict metadata
        cdef Fact fact
        cdef list inputs = []
        for arg in args:
            inputs.append(known(arg) if isinstance(arg, Tensor) else None)
        result = function(*args, **kwargs) if kwargs else function(*args)
        if not isinstance(result, Tensor):
            return result
        out = result
        node = out.grad_fn
        if node is None:
            return result
        made = node
        metadata = made.metadata
        fact = Fact.__new__(Fact)
        fact.function, fact.inputs, fact.shape = function, inputs, out.shape
        metadata[_KEY] = fact
        if len(self.facts) >= _MOST:
            self.facts.clear()
        self.facts.append(fact)
        if self.keeps:
            fact.numbers = out.numbers
            node._register_hook_dict(self.holder)
        return result

    def arrived(self, gradient):
        """Keep the gradient that arrived at a node; torch calls it."""
        cdef AnyNode made = _current()
        cdef dict metadata = made.metadata
        cdef Fact fact = metadata.get(_KEY)
        if fact is not None:
            fact.gradient = gradient
