cimport cython

@cython.locals(lead=Py_ssize_t, found=Py_ssize_t, dim=Py_ssize_t, have=Py_ssize_t, want=Py_ssize_t)
cpdef object sum_to(object gradient, object given, object shape)
