cimport cython
from nbgrad.core.engine.torch_origins cimport Tensor

cdef long long _FEW
cdef dict _SIZES

@cython.locals(at=Py_ssize_t, count="long long")
cdef long long count_of(object shape)
cpdef bint few(object shape)
cpdef long long nbytes_of(object shape, object dtype)
cpdef long long held_by(Tensor data, long long size)
