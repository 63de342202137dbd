cimport cython
from nbgrad.core.engine.broadcast cimport sum_to
from nbgrad.core.engine.node cimport Leaf, Node, OpInfo, Output, Vertex
from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_origins cimport Tensor, leaf_of, node_of, origin_of, owner_of
from nbgrad.core.recorder.nodes cimport origin_in


# There is one for each edge and each node of a backward, and none is in a cycle once the backward has ended.
@cython.no_gc
@cython.final
cdef class Target:
    cdef public Target after
    cdef public Py_ssize_t at
    cdef public bint lone
    cdef public Node node
    cdef public object origin
    cdef public Py_ssize_t position
    cdef public bint waits

@cython.no_gc
@cython.final
cdef class Passing:
    cdef public object made
    cdef public object outputs
    cdef public object table
    cdef public Target target
    cdef public TorchBackward walk

@cython.locals(ours=Passing)
cpdef tuple register(object hooks, object hook)

@cython.final
cdef class Foreseen:
    cdef list leaves
    cdef list nodes
    @cython.locals(seen=set, stack=list, node=Node, op=OpInfo)
    cdef bint reaches(self, list roots) except -1
    @cython.locals(tensor=Tensor)
    cdef bint _ends_at(self, Leaf leaf) except -1
    @cython.locals(observer=Observer, node=Node, at=Py_ssize_t)
    cdef object tell(self, list observers)

@cython.locals(op=OpInfo, position=Py_ssize_t, origin=Vertex)
cdef list _sums_of(Node node)
@cython.locals(op=OpInfo)
cdef object _sum_of(Node node, Py_ssize_t position, object shape)
@cython.locals(made=Tensor)
cdef object _reduced(object gradient, object shape)

@cython.final
cdef class TorchBackward:
    cdef public bint accumulates
    cdef public dict counts
    cdef public list hooks
    cdef public dict inside
    cdef public dict leaves
    cdef public list observers
    cdef public bint records
    cdef public dict waiting

    @cython.locals(observer=Observer, found=Foreseen)
    cdef Foreseen foreseen(self, list begun)
    @cython.locals(hook=Passing, seen=set, stack=list, parts=dict, leaves=dict)
    cpdef object begin(self, list roots)
    @cython.locals(target=Target, left=list, counts=dict, position=Py_ssize_t, at=Py_ssize_t, owner=Node)
    cdef object _aim(self, Passing hook, list stack, dict parts, dict leaves)
    @cython.locals(target=Target)
    cdef object _place(self, Passing hook)
    @cython.locals(target=Target, observer=Observer, lone=bint)
    cpdef object arrived(self, object origin, object gradient)
    @cython.locals(origin=Vertex)
    cpdef object given(self, Target target, object gradient)
    @cython.locals(node=Node, observer=Observer, position=Py_ssize_t)
    cpdef object told(self, Target target, Tensor gradient, Tensor reduced)

@cython.locals(position=Py_ssize_t)
cdef Py_ssize_t _position(list left, object origin)


@cython.locals(foreseen=Foreseen, observer=Observer)
cpdef object recorded(TorchBackward walk, object run, State state, object roots, object args, dict kwargs)
