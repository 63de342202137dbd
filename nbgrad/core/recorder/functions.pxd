cimport cython

@cython.final
cdef class Called:
    cdef public bint assigns
    cdef public bint changes
    cdef public object inner
    cdef public int kind
    cdef public object name
    cdef public object names
    cdef public object row
    cdef public bint swapped

cpdef list tensors_in(object value)
