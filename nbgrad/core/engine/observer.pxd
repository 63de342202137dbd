cimport cython
from nbgrad.core.engine.node cimport Node, Vertex

# Each op and each rule calls these methods: a C call does not look them up among the attributes of the class.
cdef class Observer:
    cpdef bint follows_torch(self)
    cpdef bint follows_gradients(self)
    cpdef bint checks_gradients(self)
    cpdef object on_call(self, object op, tuple args)
    cpdef object on_result(self, object op, tuple args, dict settings, tuple results, object node)
    cpdef object on_record(self, Node node, tuple args, object out)
    cpdef object on_torch_record(self, Node node, tuple args, object out)
    cpdef object on_torch_left_out(self, object name, bint records)
    cpdef object on_torch_passed(self, Node node, list reductions)
    cpdef object on_gradient(self, Vertex origin, object gradient, bint lone)
    cpdef object on_rule(self, Node node, Py_ssize_t position, object gradient, object reduced, object reduction)

@cython.locals(one=Observer, other=Observer)
cpdef tuple torch_followers(tuple observers)

@cython.locals(observer=Observer)
cpdef object tell(tuple observers, object op, tuple args, dict settings, object result, object node)
