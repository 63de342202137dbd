cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, TensorBase


cpdef object node_of(object made, object number)
cpdef Node owner_of(object known)
cpdef object origin_of(object tensor)
