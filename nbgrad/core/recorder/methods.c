/* Replace a method of a class in constant time, as an extension module of CPython.

   When a special method of a class is set, such as __call__, Python looks at all its subclasses, because their slots in C
   may change. Torch's Module has hundreds of them, and this takes a third of a millisecond. If one function takes the
   place of another, no slot changes: then it is enough that Python forgets the methods that it has looked up. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Whether a method has no slot function of its own: Python calls all such functions through the same one. */
static int is_plain(PyObject *method) {
  return method != NULL && method != Py_None && PyCallable_Check(method) && !PyCFunction_Check(method) &&
         !Py_IS_TYPE(method, &PyWrapperDescr_Type) && !Py_IS_TYPE(method, &PyMethodDescr_Type);
}

static PyObject *set_method(PyObject *module, PyObject *args) {
  PyObject *owner, *name, *method;
  (void)module;
  if (!PyArg_ParseTuple(args, "OUO", &owner, &name, &method)) return NULL;
  int quick = PyType_Check(owner) && Py_TYPE(owner) == &PyType_Type &&
              PyType_HasFeature((PyTypeObject *)owner, Py_TPFLAGS_HEAPTYPE);
  if (quick) {
    PyObject *own = ((PyTypeObject *)owner)->tp_dict;
    PyObject *before = PyDict_GetItemWithError(own, name);
    if (before == NULL && PyErr_Occurred()) return NULL;
    if (is_plain(before) && is_plain(method)) {
      Py_INCREF(before);  /* it lives until the class is in order */
      int failed = PyDict_SetItem(own, name, method);
      PyType_Modified((PyTypeObject *)owner);
      Py_DECREF(before);
      if (failed < 0) return NULL;
      Py_RETURN_NONE;
    }
  }
  if (PyObject_SetAttr(owner, name, method) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_method", set_method, METH_VARARGS, "setattr(class, name, method), in constant time where no slot changes."},
    {NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "methods", .m_size = 0, .m_methods = functions};

PyMODINIT_FUNC PyInit_methods(void) { return PyModule_Create(&module); }
