cimport cython

@cython.no_gc
@cython.final
cdef class Place:
    cdef object _code
    cdef int _offset

cdef dict _OURS
