cdef class _RecordingMode:
    cdef public object mode


cdef _RecordingMode _recorder

cpdef bint lift()
cpdef object put_back()
cpdef bint is_heard(bint overridden=*) except -1
cpdef bint traced() except -1
cpdef object silence(bint heard)
cpdef object mute(bint overridden=*)
cpdef object unmute(object guard)
