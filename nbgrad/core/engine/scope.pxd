cimport cython
from nbgrad.core.backend.function_mode cimport put_back, take_off
from nbgrad.core.engine.call_site cimport user_place
from nbgrad.core.engine.place cimport Place
from nbgrad.core.engine.state cimport Scope, State

# A scope is never in a reference cycle: the garbage collector need not go through scopes.
@cython.no_gc
@cython.final
cdef class ModuleScope(Scope):
    cdef readonly object kind
    cdef readonly object module

@cython.final
cdef class _Placed:
    cdef object above
    cdef bint alone
    cdef object forward
    cdef object kind
    cdef object label
    cdef object module

@cython.locals(given=State, after=State, outer=Scope, placed=_Placed, own=bint, depth=Py_ssize_t, few=Py_ssize_t)
cpdef object called(object module, State state, object run, tuple args, dict kwargs, object then=*)

@cython.locals(scope=ModuleScope)
cpdef ModuleScope told_scope(object label, object kind, Scope parent)

cdef object _tell(object then, object result, State state)
@cython.locals(scope=ModuleScope, known=Place)
cdef ModuleScope _entered(_Placed placed, Scope outer, bint own)

cdef dict _known

@cython.locals(known=_Placed, caller=ModuleScope)
cdef _Placed _placed(object module, Scope parent)

@cython.locals(scope=ModuleScope)
cpdef object retitle(ModuleScope scope, object title)
