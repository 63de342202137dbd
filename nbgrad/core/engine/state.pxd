cimport cython
from nbgrad.core.engine.place cimport Place

# A scope is never in a reference cycle: the garbage collector need not go through scopes.
@cython.no_gc
cdef class Scope:
    cdef readonly object label
    cdef readonly Scope parent
    cdef readonly Place place

cdef class State:
    cdef readonly object computed
    cdef readonly object device
    cdef readonly bint grad_enabled
    cdef readonly bint inference
    cdef readonly tuple observers
    cdef readonly State outer
    cdef public Scope scope
    cdef readonly object thread
    cdef readonly object tracer
    cdef readonly object walking

cpdef bint recording(State state)
