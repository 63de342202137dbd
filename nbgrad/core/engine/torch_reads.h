/* How compiled code reads torch's tensors and nodes. docs/decisions/torch_reads.md says why, and torch_reads.py holds the
   plain Python for the same. Each compiled module that includes this file has its own copy of the static variables. */

#ifndef NBGRAD_TORCH_READS_H
#define NBGRAD_TORCH_READS_H

/* The attributes of torch's tensors, asked of torch's own C functions. A tensor of another class than Tensor and
   Parameter may have its own. */
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
TENSOR_FIELD(tensor_is_meta, "is_meta")
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

/* Whether the API has refused a tensor. That takes torch milliseconds, so tensors on the meta device are not tried
   again. Before, they are not looked for: to ask every tensor of a usual program takes longer. */
static int tensor_exchange_refused = 0;

/* Fill ``out`` with the facts; 0 for a tensor of another class, or one that DLPack cannot describe. */
static inline int tensor_looked(PyObject *tensor, tensor_look *out) {
    if (!tensor_exchange_sought) tensor_exchange_seek();
    if (tensor_exchange_found == NULL) return 0;
    PyTypeObject *type = Py_TYPE(tensor);
    if (type != tensor_classes[0] && type != tensor_classes[1]) return 0;
    if (tensor_exchange_refused) {
        PyObject *meta = tensor_is_meta(tensor);
        if (meta == NULL) PyErr_Clear();
        Py_XDECREF(meta);
        if (meta != Py_False) return 0;
    }
    if (tensor_exchange_found->look(tensor, out) == 0) return 1;
    tensor_exchange_refused = 1;
    PyErr_Clear();
    return 0;
}

/* Shapes that were read before: torch itself makes a new object each time. */
#define TENSOR_DIMS 6
#define TENSOR_SHAPES 64
typedef struct { PyObject *made; int32_t ndim; int64_t dims[TENSOR_DIMS]; } tensor_known_shape;
static tensor_known_shape tensor_shapes[TENSOR_SHAPES];

/* The shape of a tensor with the facts ``look``. */
static PyObject *tensor_shape_at(PyObject *tensor, const tensor_look *look) {
    if (look->ndim > TENSOR_DIMS) return tensor_sizes(tensor);
    uint64_t mixed = (uint64_t)look->ndim;
    for (int at = 0; at < look->ndim; at++) mixed = mixed * 1000003u + (uint64_t)look->shape[at];
    tensor_known_shape *known = &tensor_shapes[(mixed ^ (mixed >> 7)) % TENSOR_SHAPES];
    int same = known->made != NULL && known->ndim == look->ndim;
    for (int at = 0; same && at < look->ndim; at++) same = known->dims[at] == look->shape[at];
    if (!same) {
        PyObject *made = tensor_sizes(tensor);
        if (made == NULL) return NULL;
        PyObject *before = known->made;
        known->made = Py_NewRef(made);
        known->ndim = look->ndim;
        for (int at = 0; at < look->ndim; at++) known->dims[at] = look->shape[at];
        Py_XDECREF(before);
        return made;
    }
    return Py_NewRef(known->made);
}

static PyObject *tensor_shape(PyObject *tensor) {
    tensor_look look;
    return tensor_looked(tensor, &look) ? tensor_shape_at(tensor, &look) : tensor_sizes(tensor);
}

/* The element type of a tensor with the facts ``look``: one object for each, as torch has. */
static PyObject *tensor_dtype_at(PyObject *tensor, const tensor_look *look) {
    static PyObject *dtypes[8][17];
    if (look->element.lanes != 1 || look->element.code > 7 || look->element.bits > 128) return tensor_dtype(tensor);
    PyObject **known = &dtypes[look->element.code][look->element.bits / 8];
    if (*known == NULL && (*known = tensor_dtype(tensor)) == NULL) return NULL;
    return Py_NewRef(*known);
}

#define TENSOR_FEW 1024  /* FEW in torch_reads.py */

/* A copy of the numbers of a small tensor on the CPU, if they are real, contiguous and no view; else None. */
static PyObject *tensor_numbers_at(PyObject *tensor, const tensor_look *look) {
    if (look->device.type != 1 || look->data == NULL || look->element.lanes != 1) Py_RETURN_NONE;
    if (look->element.code != 2 && look->element.code != 4) Py_RETURN_NONE;  /* floats and bfloat16 */
    int64_t count = 1;
    for (int at = look->ndim - 1; at >= 0; at--) {
        if (look->strides != NULL && look->shape[at] != 1 && look->strides[at] != count) Py_RETURN_NONE;
        count *= look->shape[at];
    }
    if (count == 0 || count > TENSOR_FEW) Py_RETURN_NONE;
    PyObject *base = tensor_base(tensor);  /* a view may be marked to be read with the sign turned */
    if (base != Py_None) {
        if (base == NULL) return NULL;
        Py_DECREF(base);
        Py_RETURN_NONE;
    }
    Py_DECREF(base);
    return PyBytes_FromStringAndSize((char *)look->data + look->byte_offset, count * look->element.bits / 8);
}

static PyObject *tensor_numbers(PyObject *tensor) {
    tensor_look look;
    if (!tensor_looked(tensor, &look)) Py_RETURN_NONE;
    return tensor_numbers_at(tensor, &look);
}

/* The number of a tensor on the CPU that has one, if it is real and no view; else None. No mode of torch's notices. */
static PyObject *tensor_number(PyObject *tensor) {
    tensor_look look;
    if (!tensor_looked(tensor, &look)) Py_RETURN_NONE;
    if (look.device.type != 1 || look.data == NULL || look.element.lanes != 1) Py_RETURN_NONE;
    for (int at = 0; at < look.ndim; at++) if (look.shape[at] != 1) Py_RETURN_NONE;
    PyObject *base = tensor_base(tensor);  /* a view may be marked to be read with the sign turned */
    if (base == NULL) return NULL;
    Py_DECREF(base);
    if (base != Py_None) Py_RETURN_NONE;
    const char *at = (const char *)look.data + look.byte_offset;
    double number;
    float single;
    uint16_t half;
    if (look.element.code == 2 && look.element.bits == 64) {
        memcpy(&number, at, sizeof number);
    } else if (look.element.code == 2 && look.element.bits == 32) {
        memcpy(&single, at, sizeof single);
        number = single;
    } else if (look.element.code == 2 && look.element.bits == 16) {
        memcpy(&half, at, sizeof half);
        const char low_first[2] = {(char)(half & 255), (char)(half >> 8)};
        number = PyFloat_Unpack2(low_first, 1);
    } else if (look.element.code == 4 && look.element.bits == 16) {  /* the upper half of a float32 */
        memcpy(&half, at, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        number = single;
    } else {
        Py_RETURN_NONE;
    }
    return PyFloat_FromDouble(number);
}

#define TENSOR_SAMPLE 64  /* SAMPLE in torch_reads.py */
#define TENSOR_GOLDEN 0.6180339887498949

/* A copy of TENSOR_SAMPLE numbers of a larger tensor on the CPU, if they are real, at positions that only depend on how
   many numbers it has; else None. */
static PyObject *tensor_sample(PyObject *tensor) {
    tensor_look look;
    if (!tensor_looked(tensor, &look)) Py_RETURN_NONE;
    if (look.device.type != 1 || look.data == NULL || look.element.lanes != 1) Py_RETURN_NONE;
    if (look.element.code != 2 && look.element.code != 4) Py_RETURN_NONE;  /* floats and bfloat16 */
    int64_t count = 1, size = look.element.bits / 8;
    for (int at = 0; at < look.ndim; at++) count *= look.shape[at];
    if (count <= TENSOR_FEW) Py_RETURN_NONE;
    PyObject *base = tensor_base(tensor);
    if (base == NULL) return NULL;
    int turned = 0;  /* a view may be marked to be read with the sign turned */
    if (base != Py_None) {
        PyObject *answer = PyObject_CallMethod(tensor, "is_neg", NULL);
        turned = answer == NULL ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
    }
    Py_DECREF(base);
    if (turned < 0) return NULL;
    if (turned) Py_RETURN_NONE;
    PyObject *made = PyBytes_FromStringAndSize(NULL, TENSOR_SAMPLE * size);
    if (made == NULL) return NULL;
    char *into = PyBytes_AS_STRING(made), *from = (char *)look.data + look.byte_offset;
    for (int64_t part = 0; part < TENSOR_SAMPLE; part++) {
        int64_t first = part * count / TENSOR_SAMPLE, end = (part + 1) * count / TENSOR_SAMPLE;
        double spread = (double)part * TENSOR_GOLDEN;
        int64_t place = first + (int64_t)((spread - (double)(int64_t)spread) * (double)(end - first)), offset = 0;
        if (look.strides == NULL) offset = place;
        else
            for (int at = look.ndim - 1; at >= 0; at--) {
                offset += place % look.shape[at] * look.strides[at];
                place /= look.shape[at];
            }
        memcpy(into + part * size, from + offset * size, size);
    }
    return made;
}

/* The shape, the element type and, if they are wanted, the numbers of a tensor: torch is asked once. */
static PyObject *tensor_facts_of(PyObject *tensor, int wanted) {
    tensor_look look;
    int looked = tensor_looked(tensor, &look);
    PyObject *shape = looked ? tensor_shape_at(tensor, &look) : tensor_sizes(tensor);
    PyObject *dtype = shape == NULL ? NULL : looked ? tensor_dtype_at(tensor, &look) : tensor_dtype(tensor);
    PyObject *numbers = dtype == NULL ? NULL : looked && wanted ? tensor_numbers_at(tensor, &look) : Py_NewRef(Py_None);
    PyObject *facts = numbers == NULL ? NULL : PyTuple_New(3);
    if (facts == NULL) {
        Py_XDECREF(shape);
        Py_XDECREF(dtype);
        Py_XDECREF(numbers);
        return NULL;
    }
    PyTuple_SET_ITEM(facts, 0, shape);
    PyTuple_SET_ITEM(facts, 1, dtype);
    PyTuple_SET_ITEM(facts, 2, numbers);
    return facts;
}

static PyObject *tensor_facts(PyObject *tensor) { return tensor_facts_of(tensor, 0); }
static PyObject *tensor_facts_and_numbers(PyObject *tensor) { return tensor_facts_of(tensor, 1); }

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

#endif
