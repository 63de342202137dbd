cimport cython


cdef class _RecordingMode:
    cdef public object mode


cdef _RecordingMode _recorder

cpdef Py_ssize_t take_off() except -1
@cython.locals(above=list, found=Py_ssize_t)
cdef Py_ssize_t _dig(object top) except -1
cpdef object put_back(Py_ssize_t depth)
cdef object _bury(Py_ssize_t depth)
cpdef bint is_heard(bint overridden=*) except -1
cpdef bint traced() except -1
cpdef object mute(bint heard=*)
cpdef object unmute(object guard)
