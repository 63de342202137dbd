cimport cython
from nbgrad.core.engine.node cimport OpInfo

@cython.locals(arity=Py_ssize_t)
cpdef tuple bind(OpInfo op, tuple args, dict settings)

@cython.locals(arity=Py_ssize_t, position=Py_ssize_t, defaults=dict, extra=tuple, found=dict)
cdef tuple _by_position(OpInfo op, tuple args, dict settings)

cpdef bint bound(OpInfo op, Py_ssize_t missing, dict settings) except -1

cpdef bint unbound(object value) except -1

@cython.locals(parts=tuple)
cpdef bint unchanging(object value) except -1

cpdef bint all_unchanging(dict settings) except -1
