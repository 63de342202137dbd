from nbgrad.core.engine.node cimport Leaf, Node, Output, Vertex
from nbgrad.core.engine.state cimport State

cpdef object origin_in(object tensor, State state)
