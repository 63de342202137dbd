cimport cython
from nbgrad.core.backend.function_mode cimport put_back, take_off
from nbgrad.core.dispatch.arguments cimport bind, bound
from nbgrad.core.dispatch.plan cimport Plan
from nbgrad.core.engine.node cimport Node, OpInfo, TensorBase, next_seq
from nbgrad.core.engine.observer cimport Observer, tell
from nbgrad.core.engine.state cimport State, recording
from nbgrad.core.tensor.views cimport link

@cython.final
cdef class Op(OpInfo):
    cdef public bint autocasts
    cdef public bint simple
    cdef public bint view
    cdef public bint holomorphic
    cdef public dict _plans

    @cython.locals(missing=Py_ssize_t)
    cpdef object call(self, tuple args, dict settings)
    @cython.locals(state=State, depth=Py_ssize_t)
    cpdef object run(self, tuple args, dict settings)
    cpdef object _traced(self, tuple args, dict settings, State state)
    @cython.locals(observer=Observer, values=list, edges=list, recorded=bint)
    cdef object _run(self, tuple args, dict settings, State state)
    cpdef list _versions(self, tuple saved)
    @cython.locals(position=Py_ssize_t, needs=object, ours=bint, foreign=bint, tensor=TensorBase)
    cpdef object _unwrap(self, tuple args, list values, list edges)
    @cython.locals(node=Node, plan=Plan)
    cpdef object _record(self, list edges, list values, object result, dict settings, object needs)

@cython.locals(tensor=TensorBase)
cpdef object made(object raw, Node node)

cdef type _TENSOR
