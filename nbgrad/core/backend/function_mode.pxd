cdef class _Recorder:
    cdef public object mode


cpdef bint lift()
cpdef object put_back()
