from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport State

cpdef object follow()
cpdef object unfollow(object thread)
cpdef object unfollow_to(Py_ssize_t count)
cpdef Py_ssize_t follows()
