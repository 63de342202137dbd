cimport cython
from nbgrad.core.modes cimport State

cdef class Scope:
    cdef readonly object label
    cdef readonly Scope parent

@cython.final
cdef class ModuleScope(Scope):
    cdef readonly object kind
    cdef readonly object module

@cython.locals(state=State, given=State, after=State)
cpdef object in_scope(object scope, object run, tuple args, dict kwargs)

cdef dict _labels

@cython.locals(known=tuple)
cdef tuple _placed(object module, Scope parent)
