/* The interpreter of loop nests, as an extension module of CPython.

   A program comes as a list of numbers, which nbgrad/core/symbolic/nest/interpreter.py writes and which is checked
   here when it is read. Running it allocates the outputs with torch and calls no other Python. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(__GNUC__) || defined(__clang__)
#include <stddef.h>
#include <stdint.h>

/* Sums of so many numbers at most are taken in float32, sixteen partial sums side by side. */
#define PIECE 512
/* So many rows at most are added up in float32 where the columns stay. */
#define TALLEST 16
/* So many steps of one number at least are worth giving other threads their turn: about 50 microseconds. */
#define LONG_ENOUGH 400000
/* Scratch memory of so many bytes at most stays with the program between calls. */
#define KEPT (1 << 20)
#define ALIGNMENT 64

/* Every pointwise instruction; interpreter.py reads the order from this list. */
#define POINTWISE(UNARY, BINARY, TERNARY) \
  BINARY(OP_ADD, add) BINARY(OP_SUB, sub) BINARY(OP_MUL, mul) BINARY(OP_DIV, div) \
  BINARY(OP_MAXIMUM, maximum) BINARY(OP_MINIMUM, minimum) \
  BINARY(OP_LT, lt) BINARY(OP_LE, le) BINARY(OP_GT, gt) BINARY(OP_GE, ge) BINARY(OP_EQ, eq) BINARY(OP_NE, ne) \
  TERNARY(OP_WHERE, where) \
  UNARY(OP_COPY, copy) UNARY(OP_NEG, neg) UNARY(OP_ABS, abs) UNARY(OP_SIGN, sign) UNARY(OP_SQUARE, square) \
  UNARY(OP_RECIPROCAL, reciprocal) UNARY(OP_SQRT, sqrt) UNARY(OP_RSQRT, rsqrt) UNARY(OP_RELU, relu) \
  UNARY(OP_EXP, exp) UNARY(OP_EXPM1, expm1) UNARY(OP_LOG, log) UNARY(OP_LOG1P, log1p) UNARY(OP_TANH, tanh) \
  UNARY(OP_SIGMOID, sigmoid) UNARY(OP_ERF, erf) UNARY(OP_SIN, sin) UNARY(OP_COS, cos)
#define ENUM_OF(OP, function) OP,
enum { POINTWISE(ENUM_OF, ENUM_OF, ENUM_OF) OP_GATHER, OP_ROW_SUM, OP_ROW_MAX, OP_ACCUMULATE_SUM, OP_ACCUMULATE_MAX, OPS };
#define NAME_OF(OP, function) #function,
static const char *const names[OPS] = {POINTWISE(NAME_OF, NAME_OF, NAME_OF) "gather", "row_sum", "row_max",
                                       "accumulate_sum", "accumulate_max"};

typedef struct { /* where a register is: in an input, an output or the scratch memory */
  int64_t base, offset, row_step, column_step;
} Place;
typedef struct {
  int32_t op, to, a, b, c;
  int32_t fast;  /* for the four arithmetic operations: 3 * op, + 1 or 2 where the second or first operand is one number */
  int32_t table; /* of a gather: its strides; of an accumulation: which accumulator */
  uint8_t by_rows; /* the result has one number a row */
  uint8_t spread;  /* some operand has one number a row, or one row for all */
  uint8_t a_wide, b_wide, c_wide; /* the operand has a number for each step of the inner loop */
  uint8_t a_step, b_step, c_step; /* from one row to the next: 0, 1, or 2 for as many as there are columns */
} Instruction;
typedef struct {
  int64_t place, count, columns, table, largest, partial; /* table: strides of the rows in the result, 0 for none */
  Place result;
} Accumulator;
typedef struct {
  int64_t rows, columns, block_rows, block_columns, registers, moving, count, accumulated;
  Place *places;
  Instruction *instructions;
  Accumulator *accumulators;
} Nest;
typedef struct {
  long row, column, rows, columns;
} Span;
typedef struct {
  PyObject_HEAD
  int64_t inputs, outputs, count, scratch, doubles, partial, most_registers, work, constants, constants_at;
  int64_t *words, length;
  float *values; /* the constants, at the end of the words */
  Nest *nests;
  char *kept;
  int busy;
  PyObject *templates; /* a tensor of the shape of each output */
  vectorcallfunc call;
} Program;
static inline const int64_t *words_of(const Program *program) { return program->words; }

#define VECTOR(name) plain_##name
#define WIDTH 4
#include "vector_math.h"
#include "blocks.h"
#undef WIDTH
#undef VECTOR

#if defined(__x86_64__) && defined(__linux__) && !defined(__AVX2__)
#define HAS_AVX2 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
#include <immintrin.h>
#define VECTOR(name) avx2_##name
#define WIDTH 8
#define MASKED
#include "vector_math.h"
#include "blocks.h"
#undef WIDTH
#undef VECTOR
#undef MASKED
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static void (*run_nests)(const Program *, float **, double *, float *, float **) = plain_run;
static PyObject *empty_like, *data_pointer;

/* ---------------------------------------------------------------------------------------------- reading a program */

typedef struct {
  const int64_t *words;
  int64_t length, at;
} Reader;

static int64_t next(Reader *from) { return from->at < from->length ? from->words[from->at++] : (from->at++, 0); }
static int inside(int64_t x, int64_t end) { return x >= 0 && x < end; }

static Place read_place(Reader *from) {
  Place p;
  p.base = next(from), p.offset = next(from), p.row_step = next(from), p.column_step = next(from);
  return p;
}
static int read_nest(Program *self, Nest *nest, Reader *from) {
  nest->rows = next(from), nest->columns = next(from), nest->block_rows = next(from), nest->block_columns = next(from);
  nest->registers = next(from), nest->moving = next(from), nest->count = next(from), nest->accumulated = next(from);
  if (nest->rows < 1 || nest->columns < 1 || nest->block_rows < 1 || nest->block_columns < 1 ||
      !inside(nest->registers, from->length) || !inside(nest->count, from->length) ||
      !inside(nest->accumulated, from->length) || !inside(nest->moving, nest->registers + 1))
    return 0;
  int64_t bases = self->inputs + self->outputs + 1;
  nest->places = PyMem_Calloc((size_t)nest->registers + 1, sizeof(Place));
  nest->instructions = PyMem_Calloc((size_t)nest->count + 1, sizeof(Instruction));
  nest->accumulators = PyMem_Calloc((size_t)nest->accumulated + 1, sizeof(Accumulator));
  if (!nest->places || !nest->instructions || !nest->accumulators) return 0;
  for (int64_t k = 0; k < nest->registers; k++) {
    nest->places[k] = read_place(from);
    if (!inside(nest->places[k].base, bases)) return 0;
  }
  for (int64_t k = 0; k < nest->accumulated; k++) {
    Accumulator *one = nest->accumulators + k;
    one->place = next(from), one->count = next(from), one->columns = next(from), one->table = next(from);
    one->largest = next(from), one->partial = next(from), one->result = read_place(from);
    if (!inside(one->result.base, bases) || one->place < 0 || one->count < 1 || one->place + one->count > self->doubles ||
        !inside(one->table, from->length) || one->partial < -1 ||
        (one->partial >= 0 && one->partial + one->count > self->partial))
      return 0;
  }
  for (int64_t k = 0; k < nest->count; k++) {
    Instruction *one = nest->instructions + k;
    one->op = (int32_t)next(from), one->to = (int32_t)next(from);
    one->a = (int32_t)next(from), one->b = (int32_t)next(from), one->c = (int32_t)next(from);
    one->table = (int32_t)next(from), one->by_rows = (uint8_t)next(from), one->spread = (uint8_t)next(from);
    one->a_wide = (uint8_t)next(from), one->b_wide = (uint8_t)next(from), one->c_wide = (uint8_t)next(from);
    one->a_step = (uint8_t)next(from), one->b_step = (uint8_t)next(from), one->c_step = (uint8_t)next(from);
    if (!inside(one->op, OPS) || !inside(one->to, nest->registers) || !inside(one->a, nest->registers) ||
        !inside(one->b, nest->registers) || !inside(one->c, nest->registers) || !inside(one->table, from->length))
      return 0;
    one->fast = -1;
    if (one->op <= OP_DIV && (one->a_wide || one->b_wide)) one->fast = 3 * one->op + (one->b_wide ? 2 * !one->a_wide : 1);
    if (one->op >= OP_ACCUMULATE_SUM && !inside(one->table, nest->accumulated)) return 0;
  }
  if (nest->registers > self->most_registers) self->most_registers = nest->registers;
  return 1;
}

static PyObject *program_call(PyObject *, PyObject *const *, size_t, PyObject *);

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  Py_buffer words, constants;
  PyObject *templates;
  if (keywords && PyDict_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "Program() takes no keywords");
  if (!PyArg_ParseTuple(args, "y*y*O!:Program", &words, &constants, &PyTuple_Type, &templates)) return NULL;
  Program *self = (Program *)type->tp_alloc(type, 0);
  if (!self) goto done;
  self->call = program_call;
  self->templates = Py_NewRef(templates);
  self->length = words.len / (Py_ssize_t)sizeof(int64_t);
  self->constants = constants.len / (Py_ssize_t)sizeof(float);
  self->words = PyMem_Malloc((size_t)words.len + 8);
  self->values = PyMem_Malloc((size_t)constants.len + 8);
  if (!self->words || !self->values) { PyErr_NoMemory(); Py_CLEAR(self); goto done; }
  memcpy(self->words, words.buf, (size_t)words.len);
  memcpy(self->values, constants.buf, (size_t)constants.len);
  Reader from = {self->words, self->length, 0};
  self->inputs = next(&from), self->outputs = next(&from);
  int64_t nests = next(&from);
  self->scratch = next(&from), self->doubles = next(&from), self->partial = next(&from);
  self->constants_at = next(&from), self->work = next(&from);
  from.at = next(&from); /* the tables lie between the head and the nests */
  int sound = inside(nests, self->length) && self->inputs >= 0 && self->outputs == PyTuple_GET_SIZE(templates) &&
              self->constants_at >= 0 && self->constants_at + self->constants <= self->scratch;
  if (sound) {
    self->nests = PyMem_Calloc((size_t)nests + 1, sizeof(Nest));
    sound = self->nests != NULL;
  }
  for (; sound && self->count < nests; ) sound = read_nest(self, self->nests + self->count++, &from);
  if (!sound || from.at != self->length) {
    PyErr_SetString(PyExc_ValueError, "these numbers are no program of loop nests");
    Py_CLEAR(self);
  }
done:
  PyBuffer_Release(&words);
  PyBuffer_Release(&constants);
  return (PyObject *)self;
}

static void program_dealloc(Program *self) {
  for (int64_t k = 0; k < self->count; k++) {
    PyMem_Free(self->nests[k].places);
    PyMem_Free(self->nests[k].instructions);
    PyMem_Free(self->nests[k].accumulators);
  }
  PyMem_Free(self->nests);
  PyMem_Free(self->words);
  PyMem_Free(self->values);
  PyMem_RawFree(self->kept);
  Py_XDECREF(self->templates);
  Py_TYPE(self)->tp_free((PyObject *)self);
}

/* -------------------------------------------------------------------------------------------------------- a call */

static size_t rounded(int64_t bytes) { return ((size_t)bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1); }

/* Doubles, partial sums, pointers, scratch. */
static size_t scratch_bytes(const Program *self) {
  return rounded(self->doubles * 8) + rounded(self->partial * 4) + rounded(self->most_registers * 8) +
         rounded(self->scratch * 4) + 2 * ALIGNMENT;
}

static float *pointer_of(PyObject *tensor) {
  PyObject *number = PyObject_CallOneArg(data_pointer, tensor);
  if (!number) return NULL;
  void *pointer = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  if (!pointer && !PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a tensor without memory: is it a fake one?");
  return pointer;
}

static void execute(const Program *self, float **bases, char *memory) {
  char *at = (char *)rounded((int64_t)(intptr_t)memory);
  double *doubles = (double *)at;
  float *partial = (float *)(at += rounded(self->doubles * 8));
  float **place = (float **)(at += rounded(self->partial * 4));
  float *scratch = (float *)(at += rounded(self->most_registers * 8));
  memcpy(scratch + self->constants_at, self->values, (size_t)self->constants * 4);
  bases[self->inputs + self->outputs] = scratch;
  run_nests(self, bases, doubles, partial, place);
}

/* The outputs as a list. The caller answers for shapes, types and contiguity of the inputs. */
static PyObject *program_call(PyObject *callable, PyObject *const *args, size_t flags, PyObject *keywords) {
  Program *self = (Program *)callable;
  Py_ssize_t given = PyVectorcall_NARGS(flags);
  if (keywords && PyTuple_GET_SIZE(keywords)) return PyErr_Format(PyExc_TypeError, "a program takes no keywords");
  if (given != self->inputs)
    return PyErr_Format(PyExc_TypeError, "this program takes %zd tensors, not %zd", (Py_ssize_t)self->inputs, given);
  float *few[64], **bases = few;
  size_t needed = (size_t)(self->inputs + self->outputs + 1);
  if (needed > 64 && !(bases = PyMem_Malloc(needed * sizeof(float *)))) return PyErr_NoMemory();
  PyObject *made = PyList_New(self->outputs);
  char *memory = NULL;
  int mine = 0;
  if (!made) goto failed;
  for (int64_t k = 0; k < self->inputs; k++)
    if (!(bases[k] = pointer_of(args[k]))) goto failed;
  for (int64_t k = 0; k < self->outputs; k++) {
    PyObject *output = PyObject_CallOneArg(empty_like, PyTuple_GET_ITEM(self->templates, k));
    if (!output) goto failed;
    PyList_SET_ITEM(made, k, output);
    if (!(bases[self->inputs + k] = pointer_of(output))) goto failed;
  }
  /* The memory that the program keeps has one user at a time; a second call meanwhile gets memory of its own. */
  size_t bytes = scratch_bytes(self);
  if (bytes <= KEPT && !__atomic_exchange_n(&self->busy, 1, __ATOMIC_ACQUIRE)) {
    mine = 1;
    if (!self->kept) self->kept = PyMem_RawMalloc(bytes);
    memory = self->kept;
  } else memory = PyMem_RawMalloc(bytes);
  if (!memory) { PyErr_NoMemory(); goto failed; }
  if (self->work >= LONG_ENOUGH) {
    Py_BEGIN_ALLOW_THREADS
    execute(self, bases, memory);
    Py_END_ALLOW_THREADS
  } else execute(self, bases, memory);
  if (mine) __atomic_store_n(&self->busy, 0, __ATOMIC_RELEASE);
  else PyMem_RawFree(memory);
  if (bases != few) PyMem_Free(bases);
  return made;
failed:
  if (mine) __atomic_store_n(&self->busy, 0, __ATOMIC_RELEASE);
  if (bases != few) PyMem_Free(bases);
  Py_XDECREF(made);
  return NULL;
}

static PyObject *program_name(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure)) { return PyUnicode_FromString("nest"); }
static PyGetSetDef fields[] = {{"__name__", program_name, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};

static PyTypeObject program_type = {
  PyVarObject_HEAD_INIT(NULL, 0)
  .tp_name = "nbgrad.core.symbolic.nest.machine.Program",
  .tp_doc = PyDoc_STR("Loop nests, ready to run: Program(words, constants, templates)(*inputs) is a list of tensors."),
  .tp_basicsize = sizeof(Program),
  .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
  .tp_vectorcall_offset = offsetof(Program, call),
  .tp_call = PyVectorcall_Call,
  .tp_getset = fields,
  .tp_new = program_new,
  .tp_dealloc = (destructor)program_dealloc,
};

/* narrow(yes): whether the code for every processor is taken where a wider one could run, for the tests. */
static PyObject *narrow(PyObject *module, PyObject *yes) {
  int wanted = PyObject_IsTrue(yes);
  if (wanted < 0) return NULL;
  run_nests = plain_run;
#ifdef HAS_AVX2
  if (!wanted && __builtin_cpu_supports("avx2")) run_nests = avx2_run;
#endif
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
  {"narrow", narrow, METH_O, PyDoc_STR("narrow(yes): whether to leave out the vector instructions that not every processor has.")},
  {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {
  PyModuleDef_HEAD_INIT, .m_name = "machine", .m_size = -1, .m_methods = methods,
  .m_doc = PyDoc_STR("The interpreter of loop nests."),
};

PyMODINIT_FUNC PyInit_machine(void) {
  if (PyType_Ready(&program_type) < 0) return NULL;
  PyObject *made = PyModule_Create(&module), *torch = PyImport_ImportModule("torch");
  if (!made || !torch) goto failed;
  PyObject *tensor = PyObject_GetAttrString(torch, "Tensor");
  empty_like = PyObject_GetAttrString(torch, "empty_like");
  data_pointer = tensor ? PyObject_GetAttrString(tensor, "data_ptr") : NULL;
  Py_XDECREF(tensor);
  if (!empty_like || !data_pointer) goto failed;
  PyObject *operations = PyTuple_New(OPS);
  if (!operations) goto failed;
  for (int k = 0; k < OPS; k++) {
    PyObject *name = PyUnicode_FromString(names[k]);
    if (!name) { Py_DECREF(operations); goto failed; }
    PyTuple_SET_ITEM(operations, k, name);
  }
  int wrong = PyModule_AddObjectRef(made, "operations", operations);
  Py_DECREF(operations);
  if (wrong < 0 || PyModule_AddObjectRef(made, "Program", (PyObject *)&program_type) < 0) goto failed;
  Py_DECREF(torch);
#ifdef HAS_AVX2
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) run_nests = avx2_run;
#endif
  return made;
failed:
  Py_XDECREF(made);
  Py_XDECREF(torch);
  return NULL;
}

#else /* a compiler without vectors of any length: Microsoft's */

static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "machine", .m_size = -1, .m_methods = methods};
PyMODINIT_FUNC PyInit_machine(void) { return PyModule_Create(&module); }

#endif
