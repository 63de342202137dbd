cimport cython
from nbgrad.core.engine.node cimport Leaf, Node, TensorBase

# The attributes of torch's tensors, asked of torch's own C functions: every op that is recorded reads about a dozen. A
# tensor of another class than Tensor and Parameter may have its own.
cdef extern from *:
    """
    typedef struct {
        const char *text;
        PyObject *name;
        PyGetSetDef *read;
    } tensor_field;

    static PyTypeObject *tensor_classes[2] = {NULL, NULL};

    static int tensor_field_find(tensor_field *field) {
        PyObject *name = PyUnicode_InternFromString(field->text);
        if (name == NULL) return -1;
        if (tensor_classes[0] == NULL) {
            PyObject *parameters = PyImport_ImportModule("torch.nn.parameter");
            if (parameters == NULL) return -1;
            PyObject *parameter = PyObject_GetAttrString(parameters, "Parameter");
            PyObject *tensor = parameter == NULL ? NULL : PyObject_GetAttrString(parameters, "torch");
            Py_DECREF(parameters);
            PyObject *module = tensor;
            tensor = module == NULL ? NULL : PyObject_GetAttrString(module, "Tensor");
            Py_XDECREF(module);
            if (tensor == NULL) return -1;
            tensor_classes[1] = (PyTypeObject *)parameter;  /* both live as long as the process */
            tensor_classes[0] = (PyTypeObject *)tensor;
        }
        PyObject *own = PyObject_GetAttr((PyObject *)tensor_classes[0], name);
        PyObject *other = own == NULL ? NULL : PyObject_GetAttr((PyObject *)tensor_classes[1], name);
        if (other == NULL) return -1;
        if (own == other && Py_IS_TYPE(own, &PyGetSetDescr_Type))
            field->read = ((PyGetSetDescrObject *)own)->d_getset;
        field->name = name;
        return 0;
    }

    static inline PyObject *tensor_field_of(PyObject *tensor, tensor_field *field) {
        if (field->name == NULL && tensor_field_find(field) < 0) return NULL;
        PyTypeObject *type = Py_TYPE(tensor);
        if (field->read == NULL || (type != tensor_classes[0] && type != tensor_classes[1]))
            return PyObject_GetAttr(tensor, field->name);
        return field->read->get(tensor, field->read->closure);
    }

    #define TENSOR_FIELD(function, text) \
        static inline PyObject *function(PyObject *tensor) { \
            static tensor_field field = {text, NULL, NULL}; \
            return tensor_field_of(tensor, &field); \
        }

    TENSOR_FIELD(tensor_is_nested, "is_nested")
    TENSOR_FIELD(tensor_grad, "grad")
    TENSOR_FIELD(tensor_requires_grad, "requires_grad")
    TENSOR_FIELD(tensor_grad_fn, "grad_fn")
    TENSOR_FIELD(tensor_output_nr, "output_nr")
    TENSOR_FIELD(tensor_sizes, "shape")
    TENSOR_FIELD(tensor_dtype, "dtype")
    TENSOR_FIELD(tensor_is_cpu, "is_cpu")
    TENSOR_FIELD(tensor_device, "device")
    TENSOR_FIELD(tensor_layout, "layout")
    TENSOR_FIELD(tensor_nbytes, "nbytes")
    TENSOR_FIELD(tensor_version, "_version")
    TENSOR_FIELD(tensor_base, "_base")
    TENSOR_FIELD(tensor_hooks, "_backward_hooks")
    TENSOR_FIELD(tensor_hooks_after, "_post_accumulate_grad_hooks")

    /* The facts about a tensor, as one call of DLPack's exchange API gives them. The call makes no Python object. The
       API's version tells the layout of these structs. Torch has the API from 2.10 on. */
    typedef struct {
        void *data;
        struct { int32_t type, number; } device;
        int32_t ndim;
        struct { uint8_t code, bits; uint16_t lanes; } element;
        int64_t *shape;
        int64_t *strides;
        uint64_t byte_offset;
    } tensor_look;

    typedef struct {
        struct { uint32_t major, minor; } version;
        void *before;
        void *others[3];
        int (*look)(void *tensor, tensor_look *out);
    } tensor_exchange;

    static tensor_exchange *tensor_exchange_found = NULL;
    static int tensor_exchange_sought = 0;

    static void tensor_exchange_seek(void) {
        tensor_field field = {"is_nested", NULL, NULL};
        tensor_exchange_sought = 1;
        if (tensor_classes[0] == NULL && tensor_field_find(&field) < 0) { PyErr_Clear(); return; }
        PyObject *capsule = PyObject_GetAttrString((PyObject *)tensor_classes[0], "__dlpack_c_exchange_api__");
        if (capsule != NULL) {  /* the class holds it as long as the process lives */
            tensor_exchange *found = (tensor_exchange *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
            if (found != NULL && found->version.major == 1) tensor_exchange_found = found;
            Py_DECREF(capsule);
        }
        PyErr_Clear();
    }

    /* Fill ``out`` with the facts; 0 for a tensor of another class, or one that DLPack cannot describe. */
    static inline int tensor_looked(PyObject *tensor, tensor_look *out) {
        if (!tensor_exchange_sought) tensor_exchange_seek();
        if (tensor_exchange_found == NULL) return 0;
        PyTypeObject *type = Py_TYPE(tensor);
        if (type != tensor_classes[0] && type != tensor_classes[1]) return 0;
        if (tensor_exchange_found->look(tensor, out) == 0) return 1;
        PyErr_Clear();
        return 0;
    }

    /* Shapes that were read before: torch itself makes a new object each time. */
    #define TENSOR_DIMS 6
    #define TENSOR_SHAPES 64
    typedef struct { PyObject *made; int32_t ndim; int64_t dims[TENSOR_DIMS]; } tensor_known_shape;
    static tensor_known_shape tensor_shapes[TENSOR_SHAPES];

    static PyObject *tensor_latest = NULL;  /* whose shape was read last, and what its elements are */
    static uint8_t tensor_latest_code, tensor_latest_bytes;
    static PyObject *tensor_seen = NULL;  /* the same tensor, until its numbers are read; below: its facts */
    static tensor_look tensor_seen_look;

    static PyObject *tensor_shape(PyObject *tensor) {
        tensor_look look;
        tensor_latest = tensor_seen = NULL;
        if (!tensor_looked(tensor, &look) || look.ndim > TENSOR_DIMS) return tensor_sizes(tensor);
        tensor_seen = tensor;
        tensor_seen_look = look;
        if (look.element.lanes == 1 && look.element.code < 8 && look.element.bits <= 128) {
            tensor_latest = tensor;
            tensor_latest_code = look.element.code;
            tensor_latest_bytes = look.element.bits / 8;
        }
        uint64_t mixed = (uint64_t)look.ndim;
        for (int at = 0; at < look.ndim; at++) mixed = mixed * 1000003u + (uint64_t)look.shape[at];
        tensor_known_shape *known = &tensor_shapes[(mixed ^ (mixed >> 7)) % TENSOR_SHAPES];
        int same = known->made != NULL && known->ndim == look.ndim;
        for (int at = 0; same && at < look.ndim; at++) same = known->dims[at] == look.shape[at];
        if (!same) {
            PyObject *made = tensor_sizes(tensor);
            if (made == NULL) return NULL;
            PyObject *before = known->made;
            known->made = Py_NewRef(made);
            known->ndim = look.ndim;
            for (int at = 0; at < look.ndim; at++) known->dims[at] = look.shape[at];
            Py_XDECREF(before);
            return made;
        }
        return Py_NewRef(known->made);
    }

    /* To be read after the shape of the same tensor, with nothing in between. */
    static PyObject *tensor_dtype_too(PyObject *tensor) {
        static PyObject *dtypes[8][17];
        if (tensor != tensor_latest) return tensor_dtype(tensor);
        PyObject **known = &dtypes[tensor_latest_code][tensor_latest_bytes];
        tensor_latest = NULL;
        if (*known == NULL && (*known = tensor_dtype(tensor)) == NULL) return NULL;
        return Py_NewRef(*known);
    }

    #define TENSOR_FEW 1024  /* the SMALL of graph.stats */

    /* A copy of the numbers of a small tensor on the CPU, if they are real, contiguous and no view; else None. */
    static PyObject *tensor_numbers_at(PyObject *tensor, tensor_look look) {
        if (look.device.type != 1 || look.data == NULL || look.element.lanes != 1) Py_RETURN_NONE;
        if (look.element.code != 2 && look.element.code != 4) Py_RETURN_NONE;  /* floats and bfloat16 */
        int64_t count = 1;
        for (int at = look.ndim - 1; at >= 0; at--) {
            if (look.strides != NULL && look.shape[at] != 1 && look.strides[at] != count) Py_RETURN_NONE;
            count *= look.shape[at];
        }
        if (count == 0 || count > TENSOR_FEW) Py_RETURN_NONE;
        PyObject *base = tensor_base(tensor);  /* a view may be marked to be read with the sign turned */
        if (base != Py_None) {
            if (base == NULL) return NULL;
            Py_DECREF(base);
            Py_RETURN_NONE;
        }
        Py_DECREF(base);
        return PyBytes_FromStringAndSize((char *)look.data + look.byte_offset, count * look.element.bits / 8);
    }

    static PyObject *tensor_numbers(PyObject *tensor) {
        tensor_look look;
        if (!tensor_looked(tensor, &look)) Py_RETURN_NONE;
        return tensor_numbers_at(tensor, look);
    }

    /* To be read after the shape of the same tensor, with nothing in between but its element type. */
    static PyObject *tensor_numbers_too(PyObject *tensor) {
        if (tensor != tensor_seen) return tensor_numbers(tensor);
        tensor_seen = NULL;
        return tensor_numbers_at(tensor, tensor_seen_look);
    }

    /* The attributes of torch's C++ nodes, also read by torch's own C functions. */
    typedef struct { const char *text; PyObject *name; PyGetSetDef *read; } node_field;
    typedef PyObject AnyNodeObject;
    static destructor node_of_torchs = NULL;

    static int node_field_find(node_field *field) {
        PyObject *name = PyUnicode_InternFromString(field->text);
        if (name == NULL) return -1;
        PyObject *functions = PyImport_ImportModule("torch._C");
        PyObject *module = functions == NULL ? NULL : PyObject_GetAttrString(functions, "_functions");
        Py_XDECREF(functions);
        PyObject *accumulates = module == NULL ? NULL : PyObject_GetAttrString(module, "AccumulateGrad");
        Py_XDECREF(module);
        if (accumulates == NULL) return -1;
        PyObject *own = PyObject_GetAttr(accumulates, name);
        if (own == NULL) return -1;
        if (Py_IS_TYPE(own, &PyGetSetDescr_Type)) {  /* the class lives as long as the process */
            field->read = ((PyGetSetDescrObject *)own)->d_getset;
            node_of_torchs = ((PyTypeObject *)accumulates)->tp_dealloc;
        }
        Py_DECREF(own);
        Py_DECREF(accumulates);
        field->name = name;
        return 0;
    }

    static inline PyObject *node_field_of(PyObject *node, node_field *field) {
        if (field->name == NULL && node_field_find(field) < 0) return NULL;
        if (field->read == NULL || Py_TYPE(node)->tp_dealloc != node_of_torchs) return PyObject_GetAttr(node, field->name);
        return field->read->get(node, field->read->closure);
    }

    static PyObject *node_metadata(PyObject *node) {
        static node_field field = {"metadata", NULL, NULL};
        return node_field_of(node, &field);
    }

    static PyObject *node_next_functions(PyObject *node) {
        static node_field field = {"next_functions", NULL, NULL};
        return node_field_of(node, &field);
    }
    """
    # A node of torch's. check_size ignore: Cython need not know its size.
    ctypedef class nbgrad.core.engine.builtin_classes.AnyNode [object AnyNodeObject, check_size ignore]:
        @property
        cdef inline object metadata(self):
            return node_metadata(self)

        @property
        cdef inline object next_functions(self):
            return node_next_functions(self)

    # check_size ignore: Cython need not know its size.
    ctypedef class torch.Tensor [object PyObject, check_size ignore]:
        @property
        cdef inline object is_nested(self):
            return tensor_is_nested(self)

        @property
        cdef inline object grad(self):
            return tensor_grad(self)

        @property
        cdef inline object requires_grad(self):
            return tensor_requires_grad(self)

        @property
        cdef inline object grad_fn(self):
            return tensor_grad_fn(self)

        @property
        cdef inline object output_nr(self):
            return tensor_output_nr(self)

        @property
        cdef inline object shape(self):
            return tensor_shape(self)

        @property
        cdef inline object dtype(self):
            return tensor_dtype(self)

        @property
        cdef inline object is_cpu(self):
            return tensor_is_cpu(self)

        @property
        cdef inline object device(self):
            return tensor_device(self)

        @property
        cdef inline object layout(self):
            return tensor_layout(self)

        @property
        cdef inline object nbytes(self):
            return tensor_nbytes(self)

        @property
        cdef inline object _version(self):
            return tensor_version(self)

        @property
        cdef inline object _base(self):
            return tensor_base(self)

        @property
        cdef inline object _backward_hooks(self):
            return tensor_hooks(self)

        @property
        cdef inline object _post_accumulate_grad_hooks(self):
            return tensor_hooks_after(self)

        @property
        cdef inline object dtype_too(self):
            return tensor_dtype_too(self)

        @property
        cdef inline object numbers(self):
            return tensor_numbers(self)

        @property
        cdef inline object numbers_too(self):
            return tensor_numbers_too(self)

    object node_metadata(AnyNode node)
    object node_next_functions(AnyNode node)
    object tensor_dtype_too(Tensor tensor)
    object tensor_numbers(Tensor tensor)
    object tensor_numbers_too(Tensor tensor)
    object tensor_is_nested(Tensor tensor)
    object tensor_grad(Tensor tensor)
    object tensor_requires_grad(Tensor tensor)
    object tensor_grad_fn(Tensor tensor)
    object tensor_output_nr(Tensor tensor)
    object tensor_shape(Tensor tensor)
    object tensor_dtype(Tensor tensor)
    object tensor_is_cpu(Tensor tensor)
    object tensor_device(Tensor tensor)
    object tensor_layout(Tensor tensor)
    object tensor_nbytes(Tensor tensor)
    object tensor_version(Tensor tensor)
    object tensor_base(Tensor tensor)
    object tensor_hooks(Tensor tensor)
    object tensor_hooks_after(Tensor tensor)

cpdef object node_of(object made, object number)
cpdef Node owner_of(object known)
cdef dict _leaves

cpdef object shape_of(Tensor tensor)
@cython.locals(known=tuple, leaf=Leaf)
cpdef Leaf leaf_of(Tensor tensor)
cpdef object origin_of(object tensor)
@cython.locals(raw=Tensor)
cpdef object known_origin(object tensor)
cpdef object known_id(object tensor)
