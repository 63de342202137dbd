cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, TensorBase

cdef type RawTensor
cdef str KEY
cdef dict _leaves

cpdef object node_of(object made, object number)
cpdef object leaf_of(object tensor, object name=*)
cpdef object origin_of(object tensor)
