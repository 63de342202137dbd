from nbgrad.core.engine.node cimport Node, Vertex
from nbgrad.core.graph.listener cimport Listener

cdef class GuardedListener(Listener):
    cdef public object fault
    cdef public object kept

    cpdef object on_record(self, Node node, tuple args, object out)
    cpdef object on_torch_record(self, Node node, tuple args, object out)
    cpdef object on_torch_left_out(self, object name, bint records)
    cpdef object on_result(self, object op, tuple args, dict settings, tuple results, object node)
    cpdef object on_gradient(self, Vertex origin, object gradient, bint lone)
    cpdef object on_torch_passed(self, Node node, list reductions)
    cpdef object on_rule(self, Node node, Py_ssize_t position, object gradient, object reduced, object reduction)
    cpdef object on_backward_begin(self, list roots)
    cpdef object on_backward_end(self)
    cpdef object on_step_end(self, object params, object what)
    cpdef object on_change(self, object changed, object what)
