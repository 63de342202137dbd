cimport cython

cdef class TensorBase:
    cdef public object _alias
    cdef public object _data
    cdef public object _grad
    cdef public bint _needs_grad
    cdef public object _origin
    cdef public object name
    cdef object __weakref__

cpdef object raw_of(object value)
cpdef long long next_seq() except -1

cdef class Vertex:
    cdef public object device
    cdef public object dtype
    cdef public object hooks
    cdef public long long seq
    cdef public object shape
    cdef object __weakref__

cdef class OpInfo:
    cdef dict __dict__
    cdef object __weakref__
    cdef public Py_ssize_t arity
    cdef public frozenset broadcasts
    cdef public dict defaults
    cdef public bint differentiable
    cdef public object doc
    cdef public object formula
    cdef public object forward
    cdef public tuple inputs
    cdef public object listed
    cdef public tuple live
    cdef public bint many
    cdef public object name
    cdef public tuple no_gradient
    cdef public Py_ssize_t optional
    cdef public frozenset required
    cdef public tuple results
    cdef public dict rules
    cdef public bint several
    cdef public Py_ssize_t shown
    cdef public frozenset stretched
    cdef public dict sums
    cdef public object variadic

cdef class Steps:
    cdef public object broadcasts
    cdef public bint joined
    cdef public bint keeps_values
    cdef public tuple rules
    cdef public tuple saved_names
    cdef public dict sums

@cython.final
cdef class Node(Vertex):
    cdef public OpInfo op
    cdef public Steps plan
    cdef public object settings
    cdef public object saved
    cdef public list versions
    cdef public list edges
    cdef public Py_ssize_t outputs
    cdef public object place
    cdef public object changed
    cdef public bint direct
    cdef public Py_ssize_t tapped
    cdef public object past

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
