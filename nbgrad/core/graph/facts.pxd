cimport cython
from nbgrad.core.engine.node cimport Node, TensorBase, record_id
from nbgrad.core.engine.state cimport Scope
from nbgrad.core.engine.torch_origins cimport known_id
from nbgrad.core.engine.torch_reads cimport Tensor as RawTensor
from nbgrad.core.graph.last_backward cimport Values

cdef extern from *:
    """
    typedef PyObject ReferredObject;

    static PyObject *thing_reference(PyObject *thing) {
        return PyWeakref_NewRef(thing, NULL);
    }
    """
    # check_size ignore: Cython need not know the size of these objects.
    ctypedef class nbgrad.core.engine.builtin_classes.Referred [object ReferredObject, check_size ignore]:
        @property
        cdef inline object reference(self):
            return thing_reference(self)

    object thing_reference(Referred thing)

@cython.final
cdef class Notes:
    cdef public object changes
    cdef public set cut
    cdef public set deleted
    cdef public dict earlier
    cdef public object frame
    cdef public object graph
    cdef public dict known
    cdef public dict names
    cdef public set remade
    cdef public dict samples
    cdef public dict settled
    cdef public dict things
    cdef public Values values
    cdef public Values constants
    @cython.locals(name=str, names=dict, tensor=TensorBase)
    cpdef object name(self, dict namespace, dict outer)

# A graph keeps one for each op and none is ever in a cycle: the garbage collector need not go through them all.
@cython.freelist(256)
@cython.no_gc
@cython.final
cdef class Ran:
    cdef readonly object device
    cdef readonly object dtype
    cdef readonly object op
    cdef readonly object place
    cdef readonly Scope scope
    cdef readonly dict settings
    cdef readonly object shape
    cdef readonly tuple sources
    cdef readonly object thing

@cython.locals(made=Ran, thing=Referred)
cpdef Ran facts_of(Node node, object device, dict settings, tuple sources, Scope scope)

@cython.locals(made=Ran)
cpdef Ran grown(Ran ran, Node node, tuple more)

cdef class Outer:
    cdef object _name
    cdef readonly object device
    cdef readonly object dtype
    cdef public bint given_axis
    cdef readonly object kind
    cdef readonly object op
    cdef readonly object shape
    cdef readonly object thing

@cython.locals(ran=Ran, found=set, waiting=list)
cpdef set reached_from(object roots, dict ops)
