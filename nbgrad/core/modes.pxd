cimport cython

cdef class Observer:
    pass

cdef class State:
    cdef readonly object device
    cdef readonly bint grad_enabled
    cdef readonly bint inference
    cdef readonly tuple observers
    cdef readonly object scope
    cdef readonly bint walking

@cython.locals(before=State, after=State)
cpdef object in_scope(object scope, object run, tuple args, dict kwargs)
