cdef class Kept:
    cdef dict _held
    cdef dict _norms
    cdef dict _seen
    cdef long long _room

cdef class FrameRecorder:
    cdef public list _grads
    cdef public Kept _kept
    cdef public dict _leaves
    cdef public set arrived
    cdef public bint careful
    cdef public object number
    cdef public object outer
    cdef public dict reductions
    cdef public tuple roots
