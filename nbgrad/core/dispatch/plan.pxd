cimport cython
from nbgrad.core.engine.node cimport Steps

cdef class Plan(Steps):
    cdef public tuple facts
    cdef public dict paths
    cdef public Py_ssize_t results
    cdef public tuple settings
    cdef public tuple slots
    cdef public list unversioned
    cdef public tuple usual
    @cython.locals(arity=Py_ssize_t, slot=Py_ssize_t)
    cpdef tuple save(self, list values, tuple results, dict settings)
