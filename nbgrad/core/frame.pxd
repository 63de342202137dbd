cdef class Values:
    cdef dict _held
    cdef long long _room
    cpdef object add(self, object id, object data)

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
    cpdef object gradient(self, object seq, object gradient)
    cpdef object contribution(self, tuple key, object gradient)
    cpdef object stretched(self, tuple key, object gradient)

cdef object _raw(object gradient)
