cimport cython
from nbgrad.core.base cimport TensorBase

cdef class Values:
    cdef dict _held
    cdef long long _room
    @cython.locals(size="long long")
    cpdef object add(self, object id, object data)

cdef class Kept:
    cdef list _small
    cdef list _large
    cdef dict _index
    cdef dict _norms
    cdef object _latest
    cdef long long _size
    cdef long long _budget
    cdef long long _room
    cdef set _counted
    @cython.locals(size="long long")
    cpdef object keep(self, object key, object data)
    cpdef object shrink(self)

cdef class FrameRecorder:
    cdef public list _grads
    cdef public Kept _kept
    cdef public dict _leaves
    cdef public set arrived
    cdef public bint careful
    cdef public object number
    cdef public object outer
    cdef public dict reductions
    cdef public tuple roots
    cpdef object gradient(self, object seq, object gradient)
    cpdef object contribution(self, tuple key, object gradient)
    cpdef object stretched(self, tuple key, object gradient)
    cpdef object leaf(self, object seq, object gradient)
    cpdef object end(self, object number, object before, bint watch=*)
    cpdef object give_way(self)
    cpdef bint changed(self)

cdef long long _bytes(object data)
cdef object _raw(object gradient)
