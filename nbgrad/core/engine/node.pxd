cdef class TensorBase:
    cdef public object _alias
    cdef public object _data
    cdef public object _grad
    cdef public bint _needs_grad
    cdef public object _origin
    cdef public object name
    cdef object __weakref__

cpdef object raw_of(object value)
