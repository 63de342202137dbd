cimport cython

cdef class Plan:
    cdef public object broadcasts
    cdef public tuple facts
    cdef public bint keeps_values
    cdef public Py_ssize_t results
    cdef public tuple rules
    cdef public tuple saved_names
    cdef public bint saves
    cdef public tuple settings
    cdef public tuple slots
    @cython.locals(arity=Py_ssize_t, slot=Py_ssize_t)
    cpdef tuple save(self, list values, tuple results, dict settings)
