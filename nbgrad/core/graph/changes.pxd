cimport cython
from nbgrad.core.engine.node cimport raw_of
from nbgrad.core.engine.place cimport Place

@cython.final
cdef class Changes:
    cdef dict _alone
    cdef dict _several
    cdef public Py_ssize_t backwards
    cdef public dict seen
    @cython.locals(known=tuple)
    cdef list _held(self, object key)
    @cython.locals(data=list, held=list)
    cpdef object note(self, object changed, object what, Place place)

@cython.locals(at=Py_ssize_t)
cdef bint _same(list held, list data)
