cimport cython
from nbgrad.core.engine.call_site cimport CallSites

@cython.final
cdef class _Level:
    cdef Py_ssize_t count
    cdef double mean
    cdef double around
    cdef bint bad
    @cython.locals(far=double, found=bint, share=double)
    cpdef bint leaps(self, double value) except -1

cdef class LossRecorder:
    cdef object _values
    cdef object _lines
    cdef list _places
    cdef CallSites _sites
    cdef dict _inner
    cdef list _levels
    cdef list _far
    cdef list _copies
    @cython.locals(line=Py_ssize_t, level=_Level)
    cpdef bint note(self, object value, tuple at) except -1
