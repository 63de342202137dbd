cimport cython
from nbgrad.core.engine.node cimport raw_of
from nbgrad.core.engine.torch_reads cimport Tensor
from nbgrad.core.graph.stats cimport held_by

cdef long long _SMALL_BYTES
cdef long long _OBJECT
cdef long long _LEAST
cdef Py_ssize_t _GRADIENT
cdef Py_ssize_t _UNREDUCED

# There is one for each small op, and none is in a cycle.
@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class SmallValue:
    cdef readonly bytes memory
    cdef readonly object shape
    cdef readonly object dtype

@cython.locals(numbers=SmallValue)
cdef long long _taken(object held) except -1

@cython.locals(numbers=SmallValue)
cdef object _first_numbers(object held)

@cython.final
cdef class Values:
    cdef dict _firsts
    cdef dict _held
    cdef long long _room
    @cython.locals(made=SmallValue)
    cpdef object copy(self, object id, bytes memory, object shape, object dtype)
    cdef object _add(self, object id, object held, long long size)
    @cython.locals(kept=dict, room="long long")
    cpdef object keep(self, object ids)
    @cython.locals(size="long long")
    cpdef object add(self, object id, Tensor data)

@cython.final
cdef class Kept:
    cdef bint _asked
    cdef Kept _before
    cdef list _small
    cdef list _large
    cdef dict _index
    cdef object _lengths
    cdef object _latest
    cdef long long _size
    cdef long long _budget
    cdef long long _reserved
    cdef long long _room
    cdef long long _spare
    cdef bint _early
    cdef dict _measured
    cdef object _read
    cdef set _counted
    cdef list _lone
    @cython.locals(shelf=list)
    cpdef object keep(self, object id, Py_ssize_t position, Tensor data, long long size, object receiver=*, bint leaf=*)
    cpdef object lone(self, object id)
    @cython.locals(shelf=list)
    cpdef bint changed(self)
    cpdef long long taken(self)
    cpdef object drop_before(self)
    cpdef object shrink(self)

@cython.final
cdef class FrameRecorder:
    cdef public Kept _kept
    cdef public list _leaves
    cdef public dict _norms
    cdef public dict _results
    cdef public list arrived
    cdef public object asked
    cdef public bint careful
    cdef public object number
    cdef public object outer
    cdef public dict reductions
    cdef public tuple roots
    cdef public dict seen
    cdef public bint windows
    @cython.locals(data=Tensor)
    cpdef object see(self, object seq, object leaf)
    cpdef object gradient(self, object seq, object gradient, long long size, bint leaf=*)
    cpdef object result(self, object seq, object result, object gradient, long long size)
    cpdef object lone(self, object seq)
    cpdef object contribution(
        self, object seq, Py_ssize_t position, object gradient, long long size, object receiver, bint leaf=*
    )
    cpdef object stretched(self, object seq, Py_ssize_t position, object gradient, long long size)
    cpdef object leaf(self, object seq, object gradient)
    cpdef object end(self, object number, object before, bint watch=*)
    cpdef Kept give_way(self)

cdef object _STRIDED
