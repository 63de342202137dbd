cimport cython
from nbgrad.core.backend.function_mode cimport mute, put_back, take_off, traced, unmute
from nbgrad.core.engine.observer cimport Observer, torch_followers
from nbgrad.core.engine.pacing cimport Stretch, passing
from nbgrad.core.engine.scope cimport called
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor
from nbgrad.core.recorder.nodes cimport origin_in

cdef dict _stepping
cdef dict _inside

@cython.final
cdef class _Torch:
    cdef public object lock
    cdef public list open
    cdef public dict resting


@cython.locals(tensor=Tensor)
cdef list _learned(object optimizer, bint stepped=*)
cdef object _stepped()
@cython.locals(made=AnyNode, metadata=dict)
cdef bint _is_known(Tensor tensor) except -1

cpdef object follow()
cpdef object unfollow(object thread)
cpdef object unfollow_to(Py_ssize_t count)
cpdef Py_ssize_t follows()
