cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, TensorBase
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor

cpdef object node_of(object made, object number)
cpdef Node owner_of(object known)
cdef dict _leaves

cpdef object shape_of(Tensor tensor)
@cython.locals(known=tuple, leaf=Leaf)
cpdef Leaf leaf_of(Tensor tensor)
cpdef object origin_of(object tensor)
@cython.locals(raw=Tensor)
cpdef object known_origin(object tensor)
cpdef object known_id(object tensor)
