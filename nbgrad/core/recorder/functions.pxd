cimport cython
from nbgrad.core.dispatch.arguments cimport bind, bound
from nbgrad.core.engine.node cimport OpInfo

@cython.final
cdef class Called:
    cdef public bint assigns
    cdef public bint changes
    cdef public bint in_order
    cdef public object inner
    cdef public int kind
    cdef public object name
    cdef public object names
    cdef public dict places
    cdef public object row
    cdef public bint swapped

    @cython.locals(row=OpInfo, missing=Py_ssize_t)
    cpdef tuple arguments(self, tuple args, dict kwargs)
    @cython.locals(places=tuple, inputs=list, needed=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, more=list, settings=dict)
    cdef tuple _named(self, OpInfo row, tuple names, tuple args, dict kwargs)

cpdef list tensors_in(object value)
