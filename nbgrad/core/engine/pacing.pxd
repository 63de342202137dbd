cdef class Pacer:
    pass
