cimport cython

@cython.locals(arity=Py_ssize_t)
cpdef tuple bind(object op, tuple args, dict settings)

@cython.locals(arity=Py_ssize_t, position=Py_ssize_t, defaults=dict, extra=tuple, found=dict)
cdef tuple _by_position(object op, tuple args, dict settings)

cpdef bint unbound(object value) except -1
