cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, Output, Vertex
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_origins cimport AnyNode, Tensor, leaf_of

cdef object _TENSOR
cdef object _PARAMETER

@cython.locals(made=AnyNode, metadata=dict)
cpdef object origin_in(Tensor tensor, State state)
@cython.locals(leaf=Leaf)
cdef object _leaf(Tensor tensor, State state)
