cimport cython
from nbgrad.core.caller cimport Place

@cython.final
cdef class Changes:
    cdef dict _alone
    cdef dict _last
    @cython.locals(ids=tuple, known=tuple, held=list)
    cpdef object note(self, object changed, object what, Place place)

cdef bint _exist(list held)
