/* Calls that leave no entry of nbgrad's in a traceback, as an extension module of CPython.

   Torch calls the recorder, and the recorder calls torch. If torch raises an error, Cython adds an entry for each
   function of nbgrad's that the error passes. A program may print its tracebacks, count their entries or compare them,
   so they must be as they are without a recorder. Cython cannot leave its entries out, so the outermost function is
   wrapped: the wrapper drops the entries of nbgrad's at the beginning of the traceback. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef struct {
  PyObject_HEAD
  PyObject *function;
  PyObject *like;
  vectorcallfunc vectorcall;
  PyObject *references; /* weak ones */
} Traceless;

/* Whether the code of a frame belongs to nbgrad's core; the answer of a frame that cannot be asked is no. */
static int is_ours(PyTracebackObject *entry) {
  PyObject *globals = PyObject_GetAttrString((PyObject *)entry->tb_frame, "f_globals");
  PyObject *name = globals != NULL && PyDict_Check(globals) ? PyDict_GetItemString(globals, "__name__") : NULL;
  const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
  int ours = text != NULL && strncmp(text, "nbgrad.core.", 12) == 0;
  Py_XDECREF(globals);
  PyErr_Clear();
  return ours;
}

/* Drop the first entries of the running error's traceback, as long as they are nbgrad's. */
static void shorten(void) {
  PyObject *kind, *error, *trace;
  PyErr_Fetch(&kind, &error, &trace);
  PyErr_NormalizeException(&kind, &error, &trace);
  while (trace != NULL && PyTraceBack_Check(trace) && is_ours((PyTracebackObject *)trace)) {
    PyObject *next = PyObject_GetAttrString(trace, "tb_next");
    if (next == NULL) PyErr_Clear();
    Py_DECREF(trace);
    trace = next;
    if (trace == Py_None) Py_CLEAR(trace);
  }
  if (error != NULL && PyExceptionInstance_Check(error) && PyException_SetTraceback(error, trace == NULL ? Py_None : trace) < 0)
    PyErr_Clear();
  PyErr_Restore(kind, error, trace);
}

static PyObject *traceless_vectorcall(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
  PyObject *result = PyObject_Vectorcall(((Traceless *)self)->function, args, count, names);
  if (result == NULL) shorten();
  return result;
}

static PyObject *traceless_get(PyObject *self, PyObject *object, PyObject *type) {
  (void)type;
  return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

static PyObject *traceless_getattro(PyObject *self, PyObject *name) {
  PyObject *own = PyObject_GenericGetAttr(self, name);
  if (own != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError)) return own;
  PyErr_Clear();
  return PyObject_GetAttr(((Traceless *)self)->like, name); /* its name, its documentation, its signature */
}

static int traceless_traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(((Traceless *)self)->function);
  Py_VISIT(((Traceless *)self)->like);
  return 0;
}

static int traceless_clear(PyObject *self) {
  Py_CLEAR(((Traceless *)self)->function);
  Py_CLEAR(((Traceless *)self)->like);
  return 0;
}

static void traceless_dealloc(PyObject *self) {
  PyObject_GC_UnTrack(self);
  if (((Traceless *)self)->references != NULL) PyObject_ClearWeakRefs(self);
  traceless_clear(self);
  Py_TYPE(self)->tp_free(self);
}

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Traceless, like), READONLY, "the function that it stands for"},
    {NULL},
};

static PyObject *traceless_doc(PyObject *self, void *closure) {
  (void)closure;
  return PyObject_GetAttrString(((Traceless *)self)->like, "__doc__");
}

static PyGetSetDef computed[] = {
    {"__doc__", traceless_doc, NULL, NULL, NULL},
    {NULL},
};

static PyTypeObject TracelessType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "nbgrad.core.recorder.traceless.Traceless",
    .tp_basicsize = sizeof(Traceless),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Traceless, vectorcall),
    .tp_weaklistoffset = offsetof(Traceless, references),
    .tp_call = PyVectorcall_Call,
    .tp_descr_get = traceless_get,
    .tp_getattro = traceless_getattro,
    .tp_traverse = traceless_traverse,
    .tp_clear = traceless_clear,
    .tp_dealloc = traceless_dealloc,
    .tp_members = members,
    .tp_getset = computed,
};

static PyObject *traceless(PyObject *module, PyObject *args) {
  PyObject *function, *like = NULL;
  (void)module;
  if (!PyArg_ParseTuple(args, "O|O", &function, &like)) return NULL;
  Traceless *made = PyObject_GC_New(Traceless, &TracelessType);
  if (made == NULL) return NULL;
  made->function = Py_NewRef(function);
  made->like = Py_NewRef(like == NULL ? function : like);
  made->vectorcall = traceless_vectorcall;
  made->references = NULL;
  PyObject_GC_Track((PyObject *)made);
  return (PyObject *)made;
}

static PyMethodDef functions[] = {
    {"traceless", traceless, METH_VARARGS,
     "The first function, without an entry of nbgrad's at the beginning of a traceback; it looks like the second."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "traceless", .m_size = 0, .m_methods = functions};

PyMODINIT_FUNC PyInit_traceless(void) {
  if (PyType_Ready(&TracelessType) < 0) return NULL;
  return PyModule_Create(&module);
}
