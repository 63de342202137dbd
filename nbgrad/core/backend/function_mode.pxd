cdef class _RecordingMode:
    cdef public object mode


cpdef bint lift()
cpdef object put_back()
