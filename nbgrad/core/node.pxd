cimport cython

cdef class Vertex:
    cdef public object device
    cdef public object dtype
    cdef public object hooks
    cdef public long long seq
    cdef public object shape
    cdef object __weakref__

cdef class Steps:
    cdef public object broadcasts
    cdef public bint joined
    cdef public bint keeps_values
    cdef public tuple rules
    cdef public dict sums

@cython.final
cdef class Node(Vertex):
    cdef public object op
    cdef public Steps plan
    cdef public object settings
    cdef public object saved
    cdef public list versions
    cdef public list edges
    cdef public Py_ssize_t outputs
    cdef public object place
    cdef public object changed

@cython.final
cdef class Output(Vertex):
    cdef public Node node
    cdef public Py_ssize_t index

@cython.final
cdef class Leaf(Vertex):
    cdef public object ref
    cdef public object name
    cdef public object kind

cpdef object record_id(Vertex origin)
