cimport cython
from nbgrad.core.engine.node cimport TensorBase

cdef class View:
    cdef public object base
    cdef public object hooks
    cdef public tuple last
    cdef public bint recorded
    cdef public bint stale

cdef class Views:
    cdef public bint cut
    cdef public dict _behind
    cdef public Py_ssize_t _limit
    cdef public list _refs
    @cython.locals(refs=list)
    cpdef object add(self, object view)

@cython.locals(views=Views)
cpdef object link(TensorBase view, TensorBase source, object op, dict settings, bint recorded)

cdef Views _views(TensorBase base)
