from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport State

cpdef object follow()
cpdef object unfollow()
