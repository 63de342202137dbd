cdef class Place:
    cdef object _code
    cdef int _offset
