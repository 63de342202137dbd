cimport cython
from nbgrad.core.backend.function_mode cimport lift, put_back
from nbgrad.core.recorder.functions cimport Called

@cython.final
cdef class Running:
    cdef object frame
    cdef object code
    cdef readonly Called known
    cdef readonly tuple args
    cdef readonly dict kwargs

@cython.locals(running=Running)
cdef bint _answer(object ask, tuple args, int up) except -1
@cython.locals(running=Running, values=dict)
cdef object _note(object frame, object code)
@cython.locals(running=Running, depth=int)
cpdef int where(int up) except -1
cpdef Running returned()
cdef int _depth(object frame, Running running) except -2
