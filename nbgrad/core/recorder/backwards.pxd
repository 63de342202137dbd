cimport cython
from nbgrad.core.engine.broadcast cimport sum_to
from nbgrad.core.engine.node cimport Leaf, Node, OpInfo, Output, Vertex
from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_origins cimport node_of, origin_of
from nbgrad.core.recorder.nodes cimport origin_in


@cython.final
cdef class Target:
    cdef public bint lone
    cdef public Node node
    cdef public object origin
    cdef public object part
    cdef public Py_ssize_t parts
    cdef public Py_ssize_t position
    cdef public bint waits

@cython.final
cdef class Passing:
    cdef public object outputs
    cdef public list targets
    cdef public Walk walk

@cython.final
cdef class Walk:
    cdef public bint accumulates
    cdef public dict counts
    cdef public bint ended
    cdef public list handles
    cdef public tuple observers
    cdef public bint records
    cdef public dict waiting

    @cython.locals(hook=Passing, target=Target, targets=list, left=list, counts=dict, position=Py_ssize_t)
    cpdef object begin(self, list roots)
    @cython.locals(target=Target, observer=Observer, lone=bint)
    cpdef object arrived(self, object origin, object gradient)
    cpdef object given(self, Target target, object gradient)
    @cython.locals(node=Node, op=OpInfo, observer=Observer, position=Py_ssize_t)
    cpdef object told(self, Target target, object gradient, object reduced)
