cimport cython
from nbgrad.core.node cimport Leaf, Node, Output, Vertex

@cython.final
cdef class Walk:
    cdef public bint create_graph
    cdef public bint retain_graph
    cdef public dict found
    cdef public object freed
    cdef public list leaves
    cdef public tuple observers
    cdef public dict pending
    cdef public set summed
    cdef public object useful
    cdef public list waiting
    cdef public object wanted

    cpdef object _add(self, Vertex origin, object gradient)
    cpdef object _visit(self, Vertex origin, object gradient)
    cpdef object _collect(self, Output output, object gradient)
    @cython.locals(slot=Py_ssize_t)
    cpdef object _run_rules(self, Node node, object gradient)
    @cython.locals(parent=Vertex, same=bint)
    cpdef object _hand_on(self, Node node, Py_ssize_t position, object gradient, object result)
