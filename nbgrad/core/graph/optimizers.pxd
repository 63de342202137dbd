cimport cython

@cython.final
cdef class UpdateRecorder:
    cdef public object last
    cdef public list waiting
    cdef public Py_ssize_t skipped
    cdef object _budget
    cdef set _seen
    cdef dict _before
    cpdef object backward_ended(self, object number, bint waits)
    cdef object _turn(self)
    cpdef object begin(self, object params, bint evaluates)
    cpdef object drop(self)
    cpdef object end(self)
