cimport cython
from nbgrad.core.dispatch.arguments cimport all_unchanging
from nbgrad.core.engine.call_site cimport FrameType, in_a_function, user_frame, user_place
from nbgrad.core.engine.node cimport Leaf, Node, OpInfo, Output, TensorBase, Vertex, raw_of, record_id
from nbgrad.core.engine.observer cimport Observer
from nbgrad.core.engine.state cimport Scope, State, recording
from nbgrad.core.engine.torch_reads cimport Tensor as RawTensor, numbers_of
from nbgrad.core.graph.changes cimport Changes
from nbgrad.core.graph.facts cimport Notes, Ran, facts_of, reached_from
from nbgrad.core.graph.last_backward cimport FrameRecorder
from nbgrad.core.graph.optimizers cimport UpdateRecorder
from nbgrad.core.graph.stats cimport few, held_by, nbytes_of


cdef class Listener(Observer):
    cdef public object name
    cdef public object cell
    cdef public bint closed
    cdef public bint watch
    cdef public object _budget
    cdef public Changes changes
    cdef public dict constants
    cdef public Py_ssize_t _ask
    cdef public long long _at_last
    cdef public long long before_last
    cdef public long long _latest
    cdef public Py_ssize_t backwards
    cdef public Py_ssize_t unrecorded
    cdef public dict before
    cdef public object failure
    cdef public object first_bad
    cdef public bint _bad_loss
    cdef public object _frames
    cdef public dict left_out
    cdef public dict unread
    cdef dict _met
    cdef dict _held
    cdef public object history
    cdef public Py_ssize_t _limit
    cdef public Notes notes
    cdef public dict ops
    cdef public dict outer
    cdef public FrameRecorder running
    cdef public object training
    cdef public UpdateRecorder updates
    cdef public object uses

    cpdef bint follows_torch(self)
    cpdef bint follows_gradients(self)
    cpdef bint checks_gradients(self)
    @cython.locals(state=State, ops=dict, outer=dict, sources=list, tensor=TensorBase, origin=Vertex, scope=Scope)
    cpdef object on_record(self, Node node, tuple args, object out)
    @cython.locals(state=State, ops=dict, outer=dict, edges=list, sources=list, origin=Vertex, scope=Scope, position=Py_ssize_t, made=RawTensor)
    cpdef object on_torch_record(self, Node node, tuple args, object out)
    cdef object _keep_value(self, Node node, object out)
    cdef object _other(self, object arg)
    @cython.locals(met=tuple, raw=RawTensor)
    cdef object _constant(self, object data)
    cpdef object on_torch_left_out(self, object name, bint records)
    @cython.locals(op=OpInfo)
    cdef object _keep(self, Node node, list sources, object device, Scope scope)
    @cython.locals(state=State)
    cpdef object on_result(self, object op, tuple args, dict settings, tuple results, object node)
    @cython.locals(running=FrameRecorder, size="long long")
    cpdef object on_gradient(self, Vertex origin, object gradient, bint lone)
    @cython.locals(running=FrameRecorder)
    cpdef object on_torch_passed(self, Node node, list reductions)
    @cython.locals(running=FrameRecorder, origin=Vertex, size="long long", shown="long long")
    cpdef object on_rule(self, Node node, Py_ssize_t position, object gradient, object reduced, object reduction)
    cdef list _sums_inside(self, Node node)
    @cython.locals(frame=FrameType)
    cpdef object on_backward_begin(self, list roots)
    @cython.locals(ended=FrameRecorder, frame=bint, number=Py_ssize_t)
    cpdef object on_backward_end(self)
    cpdef object on_step_end(self, object params, object what)
    cpdef object on_change(self, object changed, object what)
    @cython.locals(ran=Ran, ops=dict, used=set, fresh='long long')
    cpdef object _sweep(self)
    cpdef object name_variables(self, dict namespace)

cdef bint _uses_another(tuple args, tuple results) except -1
cdef object _numbers(Node node, RawTensor out)
