cimport cython
from nbgrad.core.backend.function_mode cimport is_heard, mute, unmute
from nbgrad.core.engine.node cimport Leaf, Node, OpInfo, Output, Vertex
from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.torch_origins cimport leaf_of, owner_of
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor


cdef dict _KINDS
cdef list _TAP
cdef frozenset _HANDING_ON

@cython.locals(op=OpInfo)
cpdef object tap(AnyNode made, Node node)
@cython.locals(op=OpInfo, settings=dict)
cdef Py_ssize_t _handed_on(object made, Node node) except -1
@cython.locals(reached=Vertex, same=bint)
cdef bint _hands_on(Node node, Py_ssize_t position, object origin) except -1

cdef int _NOTHING
cdef int _HANDED_ON
cdef int _HOOKED

# None of these is in a cycle once the backward has ended.
@cython.no_gc
@cython.final
cdef class Share:
    cdef Py_ssize_t missing
    cdef Node node
    cdef object origin
    cdef Py_ssize_t position
    cdef object total

    cpdef object added(self, object gradient)
    cpdef object taken(self)

@cython.no_gc
cdef class NodeHook:
    cdef public object table

    cpdef object take_off(self)

@cython.no_gc
@cython.final
cdef class Giving(NodeHook):
    cdef Foreseen backward
    cdef object made
    cdef dict outputs
    cdef list shares

# There is one for each op and leaf of a backward, and none is in a cycle.
@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class Passage:
    cdef Py_ssize_t count
    cdef Node giver
    cdef object origin
    cdef bint passed
    cdef Py_ssize_t position
    cdef int shares
    cdef object tensor

@cython.final
cdef class Foreseen:
    cdef bint follows
    cdef object handles
    cdef list hooks
    cdef dict inner
    cdef tuple observers
    cdef long long quiet
    cdef public bint shaken
    cdef bint shared
    cdef dict stops
    cdef long long task
    cdef list waiting
    cdef object walk

    @cython.locals(stop=Passage, waiting=list, at=Py_ssize_t)
    cpdef bint reaches(self, list roots) except -1
    @cython.locals(stop=Passage)
    cdef object _lead_to(self, object origin, Node giver, Py_ssize_t position)
    @cython.locals(op=OpInfo, edges=list, position=Py_ssize_t, settings=dict)
    cdef bint _goes_on_from(self, Node node) except -1
    @cython.locals(tensor=Tensor)
    cdef bint _ends_at(self, Passage stop, Leaf leaf) except -1
    @cython.locals(stop=Passage, target=Passage, node=Node, edges=list, position=Py_ssize_t)
    cdef object _find_shares(self)
    cpdef object begin(self)
    @cython.locals(made=AnyNode, metadata=dict, stop=Passage, task="long long", several=bint)
    cdef object _told(self, object gradient)
    @cython.locals(left=list, parts=dict, inner=list, at=Py_ssize_t, hook=Giving)
    cdef object _hook(self, object made, Node node, dict outputs)
    @cython.locals(target=Passage, share=Share, place=Py_ssize_t)
    cdef list _shares(self, AnyNode one, Node node, list left, dict parts, list inner)
    @cython.locals(hook=Giving)
    cdef object _unhook(self, object one)
    cdef object _reached(self, object made, dict outputs, Passage stop)
    @cython.locals(stop=Passage)
    cdef object brought(self, dict outputs, tuple gradients)
    @cython.locals(share=Share)
    cdef object gave(self, list shares, tuple given)
    cdef object _shake(self)
    @cython.locals(observer=Observer, origin=Vertex, node=Node, target=Passage, edges=list, position=Py_ssize_t, lone=bint)
    cdef object _arrived(self, Passage stop, object gradient)
    @cython.locals(observer=Observer)
    cdef object _given(self, Node node, Py_ssize_t position, Vertex origin, object gradient)
    @cython.locals(hook=Giving)
    cpdef object end(self)
    @cython.locals(stop=Passage, observer=Observer, node=Node)
    cdef object _tell_nodes(self)
    @cython.locals(stop=Passage, observer=Observer, tensor=Tensor)
    cdef object _tell_leaves(self)

@cython.locals(position=Py_ssize_t, share=Share)
cdef Share _share(Node node, list left, object origin, dict parts)
@cython.locals(position=Py_ssize_t)
cpdef Py_ssize_t position_in(list left, object origin) except? -1

@cython.locals(op=OpInfo, position=Py_ssize_t, origin=Vertex)
cdef list _sums_of(Node node)
@cython.locals(op=OpInfo, same=bint)
cpdef object sum_of(Node node, Py_ssize_t position, object shape)
