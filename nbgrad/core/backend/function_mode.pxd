cdef class _RecordingMode:
    cdef public object mode


cdef _RecordingMode _recorder

cpdef bint lift()
cpdef object put_back()
cpdef object mute(bint overridden=*)
cpdef object unmute(object guard)
