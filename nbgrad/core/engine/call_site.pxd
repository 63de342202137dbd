cimport cython

from nbgrad.core.engine.place cimport Place

# The attributes of a frame, read by Python's C functions: every op that is recorded goes up a few frames.
cdef extern from *:
    """
    static PyObject *frame_code(PyObject *frame) {
        return (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    }
    static int frame_lasti(PyObject *frame) {
        return PyFrame_GetLasti((PyFrameObject *)frame);
    }
    static PyObject *frame_back(PyObject *frame) {
        PyObject *back = (PyObject *)PyFrame_GetBack((PyFrameObject *)frame);
        return back != NULL ? back : Py_NewRef(Py_None);
    }
    static PyObject *frame_locals(PyObject *frame) {
        return PyFrame_GetLocals((PyFrameObject *)frame);
    }
    """
    ctypedef class types.CodeType [object PyCodeObject, check_size ignore]:
        cdef object co_filename
        cdef int co_flags

    # check_size ignore: Cython need not know the size of a frame.
    ctypedef class types.FrameType [object PyObject, check_size ignore]:
        @property
        cdef inline CodeType f_code(self):
            return frame_code(self)

        @property
        cdef inline FrameType f_back(self):
            return frame_back(self)

        @property
        cdef inline int f_lasti(self):
            return frame_lasti(self)

        @property
        cdef inline object f_locals(self):
            return frame_locals(self)

    int frame_lasti(FrameType frame)
    CodeType frame_code(FrameType frame)
    FrameType frame_back(FrameType frame)
    object frame_locals(FrameType frame)

cdef dict _OURS

@cython.locals(frame=FrameType, above=FrameType)
cpdef FrameType user_frame()

cpdef Place user_place()

cpdef Place own_place()

@cython.locals(frame=FrameType, own=FrameType, place=Place)
cpdef tuple places()

@cython.final
cdef class CallSites:
    cdef dict _numbers
    cdef tuple _last
    cdef Py_ssize_t _number
    @cython.locals(last=tuple, place=Place, own=Place)
    cpdef Py_ssize_t number(self, tuple pair) except -1

cpdef FrameType own_frame()

@cython.locals(above=FrameType)
cdef FrameType _own_above(FrameType frame)

@cython.locals(made=Place)
cdef Place _place_in(FrameType frame)

cdef int _OPTIMIZED

cpdef bint in_a_function(FrameType frame)
