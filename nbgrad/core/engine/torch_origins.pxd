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
    TENSOR_FIELD(tensor_shape, "shape")
    TENSOR_FIELD(tensor_dtype, "dtype")
    TENSOR_FIELD(tensor_is_cpu, "is_cpu")
    TENSOR_FIELD(tensor_device, "device")
    TENSOR_FIELD(tensor_layout, "layout")
    TENSOR_FIELD(tensor_nbytes, "nbytes")
    TENSOR_FIELD(tensor_version, "_version")
    TENSOR_FIELD(tensor_base, "_base")
    """
    # Its size is torch's own matter.
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

cpdef object node_of(object made, object number)
cpdef Node owner_of(object known)
cdef dict _leaves

@cython.locals(known=tuple, leaf=Leaf)
cpdef Leaf leaf_of(Tensor tensor)
cpdef object origin_of(object tensor)
