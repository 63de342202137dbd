cdef class State:
    cdef readonly object computed
    cdef readonly object device
    cdef readonly bint grad_enabled
    cdef readonly bint inference
    cdef readonly tuple observers
    cdef readonly State outer
    cdef public object scope
    cdef readonly object thread
    cdef readonly object walking

cpdef bint recording(State state)
