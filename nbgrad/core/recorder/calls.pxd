cimport cython
from nbgrad.core.backend.function_mode cimport is_heard, mute, take_off, traced, unmute
from nbgrad.core.engine.node cimport Node, OpInfo, Output, next_seq
from nbgrad.core.engine.observer cimport Observer, torch_followers
from nbgrad.core.engine.state cimport State
from nbgrad.core.engine.torch_reads cimport AnyNode, Tensor, read_tensor
from nbgrad.core.recorder.foreseen cimport tap
from nbgrad.core.recorder.functions cimport Called, tensors_in
from nbgrad.core.recorder.nodes cimport origin_in
from nbgrad.core.recorder.python_functions cimport RunningFunction, returned, where


cdef int _PLAIN
cdef int _INNER
cdef int _CUT
cdef set _left
cdef set _clocks

cdef int _INSIDE
cdef int _RETURNS

@cython.locals(table=dict, known=Called, state=State, kind=int, told=bint, overridden=bint, heard=bint, given=tuple, place=int, running=RunningFunction)
cdef object _run(object mode, object function, object types, tuple args, object kwargs)
cdef int _place(State state) except -1
cdef object _again(object mode, object function, tuple args, object kwargs)

cdef object _left_out(Called known, tuple args, object kwargs, object result, State state)
@cython.locals(observer=Observer, observers=tuple, op=OpInfo)
cdef object _tell_left_out(Called known, tuple args, object kwargs, object result, State state)
@cython.locals(observer=Observer)
cdef object _unrecorded(tuple observers, Node node, tuple inputs, list results)
@cython.locals(tensor=Tensor)
cdef bint _any_learns(tuple args, object kwargs) except -1
cdef bint _learns(tuple args, object kwargs, bint heard) except -1
@cython.locals(observer=Observer, observers=tuple, node=Node)
cdef object _recorded(Called known, tuple given, object named, object function, tuple args, object kwargs, State state, bint heard)
@cython.locals(observer=Observer)
cdef object _tell_error(tuple observers, Node node, tuple inputs, object error, bint heard)
cdef object _start(tuple observers, bint again)
cdef object _stop(tuple observers)
cdef object _tell_clocks(tuple observers, bint begins, bint again)
cdef object _disown(Node node, object result)
@cython.locals(op=OpInfo, settings=dict)
cdef tuple _called(Called known, Node node, tuple args, object kwargs, State state)
@cython.locals(observer=Observer, follows=bint)
cdef object _tell(Called known, Node node, tuple inputs, object out, State state, tuple observers)
cdef list _edges(tuple inputs, State state)
@cython.locals(made=AnyNode, metadata=dict, number=Py_ssize_t)
cdef bint _one(Node node, Tensor out, bint follows) except -1
cdef object _several(Node node, object result, bint follows)
