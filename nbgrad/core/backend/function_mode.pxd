cdef class _RecordingMode:
    cdef public object mode


cdef _RecordingMode _recorder

cpdef bint lift()
cpdef object put_back()
