cimport cython
from nbgrad.core.engine.torch_reads cimport Tensor

cdef long long _FEW
cdef dict _SIZES
cdef object _shape
cdef object _dtype
cdef long long _size

cdef extern from *:
    """
    typedef PyObject LengthsObject;

    static inline long long lengths_product(PyObject *lengths) {
        long long product = 1;
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(lengths); at++) {
            long long length = PyLong_AsLongLong(PyTuple_GET_ITEM(lengths, at));
            if (length == -1 && PyErr_Occurred()) return -1;
            product *= length;
        }
        return product;
    }
    """
    # A tuple or a torch.Size. check_size ignore: Cython need not know the size of these objects.
    ctypedef class nbgrad.core.engine.builtin_classes.Lengths [object LengthsObject, check_size ignore]:
        @property
        cdef inline long long product(self) except? -1:
            return lengths_product(self)

    long long lengths_product(Lengths lengths) except? -1

cdef bint _COMPILED

@cython.locals(lengths=Lengths)
cdef long long count_of(object shape) except? -1
cpdef bint few(object shape)
@cython.locals(size="long long")
cpdef long long nbytes_of(object shape, object dtype)
cpdef long long held_by(Tensor data, long long size)
