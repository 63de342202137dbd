cimport cython
from nbgrad.core.backend.function_mode cimport is_heard, traced
from nbgrad.core.engine.call_site cimport places
from nbgrad.core.engine.torch_reads cimport number_of

cdef extern from *:
    # Python's ``id()`` without a Python number.
    """#define nbgrad_id(thing) ((Py_ssize_t)(thing))"""
    Py_ssize_t id "nbgrad_id"(object thing)

@cython.final
cdef class Stretch:
    cdef public Py_ssize_t left
    cdef public Py_ssize_t ended
    cdef public Py_ssize_t optimizer
    cdef public list passed
    cdef public double bound
    cdef bint _runs
    cdef object ran(self, run, tuple roots, tuple args, kwargs)
    cdef object note(self, tuple roots)
    @cython.locals(value=double)
    cdef object _keep(self, loss)
    cdef bint stepped(self, optimizer) except -1

cdef class Pacer:
    cdef Stretch passing(self)

cpdef bint is_the_programs() except -1
@cython.locals(here=tuple, pacer=Pacer)
cpdef Stretch passing()
cpdef object number_in(tensor)
cdef object _number_in(tensor)
