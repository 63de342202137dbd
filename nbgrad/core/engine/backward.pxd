cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, Output, Steps, Vertex
from nbgrad.core.engine.observer cimport Observer

@cython.final
cdef class Walk:
    cdef public bint create_graph
    cdef public bint hurried
    cdef public dict last_uses
    cdef public object reducers
    cdef public bint retain_graph
    cdef public list roots
    cdef public dict found
    cdef public object freed
    cdef public list leaves
    cdef public tuple observers
    cdef public dict pending
    cdef public set seeded
    cdef public set shown
    cdef public set summed
    cdef public object useful
    cdef public Vertex next
    cdef public list waiting
    cdef public object wanted
    cdef object __weakref__

    @cython.locals(latest=Vertex)
    cpdef Vertex _latest(self)
    @cython.locals(latest=Vertex, waiting=list)
    cpdef object _wait(self, Vertex origin)
    cpdef object _add(self, Vertex origin, object gradient)
    @cython.locals(observer=Observer, lone=bint)
    cpdef object _visit(self, Vertex origin, object gradient)
    cpdef object _collect(self, Output output, object gradient)
    @cython.locals(slot=Py_ssize_t, plan=Steps, needs=tuple, edges=list, position=Py_ssize_t)
    cpdef object _run_rules(self, Node node, object gradient)
    @cython.locals(observer=Observer, parent=Vertex, plan=Steps, same=bint)
    cpdef object _hand_on(self, Node node, Py_ssize_t position, object gradient, object result)

cdef object _undone(Node node, Py_ssize_t position, object got, object want)
