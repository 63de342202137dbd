cimport cython
from nbgrad.core.backend.function_mode cimport is_heard, mute, traced, unmute
from nbgrad.core.engine.broadcast cimport sum_to
from nbgrad.core.engine.node cimport Leaf, Node, Vertex
from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_origins cimport leaf_of, node_of, origin_of, owner_of
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor
from nbgrad.core.recorder.foreseen cimport Foreseen, NodeHook, Share, position_in, sum_of
from nbgrad.core.recorder.nodes cimport origin_in


# There is one for each edge of a backward, and none is in a cycle once the backward has ended.
@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class Target:
    cdef public Target after
    cdef public Py_ssize_t at
    cdef public Passing giver
    cdef public bint lone
    cdef public Node node
    cdef public object origin
    cdef public Py_ssize_t position
    cdef public Passing receiver
    cdef public Share share
    cdef public bint waits

@cython.no_gc
@cython.final
cdef class Passing(NodeHook):
    cdef public Py_ssize_t count
    cdef public object given
    cdef public list left
    cdef public object made
    cdef public object outputs
    cdef public Node owner
    cdef public Target source
    cdef public Target target
    cdef public TorchBackward walk

    @cython.locals(own=object, target=Target)
    cdef object _passed(self, TorchBackward walk, tuple inputs, tuple outputs)

@cython.locals(ours=NodeHook)
cpdef tuple register(object hooks, object hook)

@cython.locals(made=Tensor)
cdef object _reduced(object gradient, object shape)

@cython.final
cdef class Quiet:
    cdef object handles
    cdef long long seq
    cpdef Py_ssize_t since(self) except -1

@cython.final
cdef class TorchBackward:
    cdef public bint accumulates
    cdef public dict counts
    cdef public list hooks
    cdef public dict inside
    cdef public bint late
    cdef public dict leaves
    cdef public dict left
    cdef public tuple observers
    cdef public bint records
    cdef public list roots
    cdef public list shares
    cdef public dict waiting

    @cython.locals(observer=Observer, found=Foreseen, follows=bint)
    cpdef Foreseen foreseen(self, list begun)
    cpdef bint lost(self, object error) except -1
    cpdef object take_over(self)
    @cython.locals(hook=Passing, at=Py_ssize_t, met=dict)
    cpdef object begin(self, list roots)
    @cython.locals(hook=Passing, node=AnyNode, metadata=dict)
    cdef Passing _meet(self, object made, dict met)
    @cython.locals(made=AnyNode, target=Target, receiver=Passing, left=list, counts=dict, position=Py_ssize_t, at=Py_ssize_t, owner=Node, several=bint, share=Share, first=Target)
    cdef object _aim(self, Passing hook, dict met)
    @cython.locals(hook=Passing, target=Target, found=Target)
    cdef Target _target(self, Node owner, object origin)
    @cython.locals(share=Share)
    cdef Share _share(self, Target first)
    @cython.locals(target=Target, receiver=Passing)
    cdef object _settle(self, Passing hook)
    @cython.locals(target=Target, observer=Observer, lone=bint)
    cpdef object arrived(self, object origin, object gradient, Passing hook)
    @cython.locals(origin=Vertex, receiver=Passing)
    cpdef object given(self, Target target, object gradient)
    cpdef object part(self, Target target, Share share, object gradient)
    @cython.locals(share=Share, first=Target)
    cdef object _end_shares(self)
    cdef object _whole(self, object total, Target target)
    @cython.locals(hook=Passing, observer=Observer)
    cpdef object end(self)
    @cython.locals(hook=Passing)
    cpdef object abandon(self)
    @cython.locals(node=Node, origin=Vertex, observer=Observer, position=Py_ssize_t)
    cpdef object told(self, Target target, Tensor gradient, Tensor reduced)


@cython.locals(observer=Observer)
cpdef object _begun(TorchBackward walk, State state, object roots, object args)
cdef object _foreseen_run(TorchBackward walk, Foreseen foreseen, object run, object roots, object args, dict kwargs)
@cython.locals(foreseen=Foreseen, observer=Observer)
cpdef object recorded(TorchBackward walk, object run, State state, object roots, object args, dict kwargs)
