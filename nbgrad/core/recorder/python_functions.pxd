cimport cython
from nbgrad.core.backend.function_mode cimport put_back, take_off
from nbgrad.core.recorder.functions cimport Called

@cython.final
cdef class RunningFunction:
    cdef object frame
    cdef object code
    cdef readonly Called known
    cdef readonly tuple args
    cdef readonly dict kwargs

@cython.locals(running=RunningFunction, depth=Py_ssize_t)
cdef bint _answer(object ask, tuple args, int up) except -1
@cython.locals(running=RunningFunction, values=dict)
cdef object _note(object frame, object code)
@cython.locals(running=RunningFunction, depth=int)
cpdef int where(int up) except -1
cpdef RunningFunction returned()
cdef int _depth(object frame, RunningFunction running) except -2
