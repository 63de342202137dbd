cimport cython
from nbgrad.core.dispatch.arguments cimport all_unchanging, bind, bound, unchanging
from nbgrad.core.engine.node cimport OpInfo
from nbgrad.core.engine.torch_reads cimport Tensor

cdef object _TENSOR

@cython.final
cdef class CallForm:
    cdef Py_ssize_t count
    cdef tuple given
    cdef tuple names
    cdef OpInfo op
    cdef list others
    cdef list places
    cdef dict settings

    @cython.locals(at=Py_ssize_t, place=Py_ssize_t, given=tuple)
    cdef bint fits(self, tuple args, dict kwargs) except -1
    @cython.locals(at=Py_ssize_t, position=Py_ssize_t, named=list, found=list)
    cdef tuple inputs(self, tuple args, dict kwargs)

cdef bint _same(object known, object value) except -1
@cython.locals(at=Py_ssize_t)
cdef bint _all_same(tuple known, tuple values) except -1
@cython.locals(made=CallForm)
cdef object _form(tuple args, dict kwargs, OpInfo op, tuple inputs, dict settings)

@cython.final
cdef class Called:
    cdef public bint assigns
    cdef public bint changes
    cdef readonly list forms
    cdef public bint in_order
    cdef public int kind
    cdef public object name
    cdef public object names
    cdef public object row
    cdef public bint swapped

    @cython.locals(row=OpInfo, missing=Py_ssize_t, op=OpInfo, form=CallForm, forms=list, at=Py_ssize_t)
    cpdef tuple arguments(self, tuple args, dict kwargs)
    cdef tuple _bound(self, tuple args, dict kwargs)
    @cython.locals(places=tuple, inputs=list, needed=Py_ssize_t, at=Py_ssize_t, count=Py_ssize_t, more=list, settings=dict)
    cdef tuple _named(self, OpInfo row, tuple names, tuple args, dict kwargs)

cpdef list tensors_in(object value)
