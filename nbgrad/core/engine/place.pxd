cimport cython

@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class Place:
    cdef object _code
    cdef int _offset
    cpdef bint same(self, Place other)
