cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, Output, Vertex
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_origins cimport leaf_of
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor

cdef object _TENSOR
cdef object _PARAMETER

@cython.locals(made=AnyNode, metadata=dict)
cpdef object origin_in(Tensor tensor, State state)
@cython.locals(leaf=Leaf)
cdef object _leaf(Tensor tensor, State state)
