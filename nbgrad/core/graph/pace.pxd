cimport cython
from nbgrad.core.engine.call_site cimport CallSites, places
from nbgrad.core.engine.pacing cimport Pacer, Stretch
from nbgrad.core.engine.state cimport State
from nbgrad.core.graph.losses cimport LossRecorder

cdef class Pace(Pacer):
    cdef object _rest
    cdef public object every
    cdef public double cost
    cdef LossRecorder _losses
    cdef Stretch _stretch
    cdef Py_ssize_t _steps
    cdef Py_ssize_t _backwards
    cdef bint _stepping
    cdef bint _alone
    cdef Py_ssize_t _summed
    cdef CallSites _sites
    cdef dict _optimizers
    cdef set _seen
    cdef Py_ssize_t _left
    cdef list _recorded
    cdef object _plain
    cdef double _began
    cdef double _since
    cdef double _spent
    cdef double _due
    cdef double _more
    cdef Py_ssize_t _steady
    cdef Py_ssize_t _last
    cdef bint _leapt
    cdef Foresight _foresight
    cdef object _marks
    cdef Stretch passing(self)
    cdef object _mark(self, root)
    cpdef object take_over(self)
    @cython.locals(many=Py_ssize_t)
    cdef Py_ssize_t _ahead(self, double seconds) except? -1
    @cython.locals(now=double, seconds=double, last=bint, ended=Py_ssize_t)
    cdef object _step_ended(self)
    cdef object _measure(self, double seconds)
    @cython.locals(usual=double, more=double)
    cdef object _follow(self, double seconds)

@cython.final
cdef class Foresight:
    cdef Py_ssize_t _next
    cdef tuple _looked
    cdef Py_ssize_t _blind
    cdef Py_ssize_t _counted
    cdef Py_ssize_t _length
    cdef Py_ssize_t sure(self, Py_ssize_t steps) except? -1
    cdef bint is_last(self, Py_ssize_t steps, double seconds) except -1
