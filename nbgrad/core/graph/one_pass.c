/* The statistics of many numbers on the CPU, read once, as an extension module of CPython.

   torch has a kernel for each of the norm, the extremes and the sum, and each reads all numbers again, after a start of
   five microseconds. docs/decisions/one_pass.md has the measurements; stats.py has the same in torch's kernels, for GPUs
   and for other element types. All is added in float64, in the same order on every processor. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* So many partial sums stand side by side: they are added without waiting for each other. */
#define LANES 16
/* With so many numbers other threads of Python's get their turn meanwhile. */
#define LONG_ENOUGH 100000
#define MOST_BINS 64
/* The numbers are counted in so many tables in turn: a count need not wait for the one before, often of the same bin. */
#define TABLES 16

/* The same with wider vectors where the processor has them: the order of the sums, and so their bits, stays. */
#if defined(__x86_64__) && defined(__linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDER __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef WIDER
#define WIDER
#endif

typedef struct {
  double squares, total, low, high; /* of the finite numbers, but for the squares */
  int64_t nan, infinite;
} Found;

static inline float from_bfloat16(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float number;
  memcpy(&number, &wide, sizeof number);
  return number;
}
static inline float from_float(float number) { return number; }
static inline double from_double(double number) { return number; }

/* TYPE: of the numbers in memory; REAL: in which they are compared; READ: from the one to the other.
   whole_: all numbers are taken to be finite; if they are not, the squares tell. sound_: NaN and infinity are counted.
   bins_: how many of the numbers, in runs that begin at `starts`, lie in each of equal parts from `low` on. */
#define STATISTICS(TYPE, REAL, READ) \
  WIDER static void whole_##TYPE(const TYPE *numbers, int64_t count, Found *found) { \
    double squares[LANES] = {0}, totals[LANES] = {0}; \
    REAL lows[LANES], highs[LANES]; \
    for (int lane = 0; lane < LANES; lane++) lows[lane] = (REAL)INFINITY, highs[lane] = (REAL)-INFINITY; \
    int64_t at = 0; \
    for (; at + LANES <= count; at += LANES) \
      for (int lane = 0; lane < LANES; lane++) { \
        REAL number = READ(numbers[at + lane]); \
        lows[lane] = number < lows[lane] ? number : lows[lane]; \
        highs[lane] = number > highs[lane] ? number : highs[lane]; \
        double wide = (double)number; \
        totals[lane] += wide; \
        squares[lane] += wide * wide; \
      } \
    for (int lane = 0; at < count; at++, lane++) { \
      REAL number = READ(numbers[at]); \
      lows[lane] = number < lows[lane] ? number : lows[lane]; \
      highs[lane] = number > highs[lane] ? number : highs[lane]; \
      totals[lane] += (double)number; \
      squares[lane] += (double)number * (double)number; \
    } \
    *found = (Found){0, 0, INFINITY, -INFINITY, 0, 0}; \
    for (int lane = 0; lane < LANES; lane++) { \
      found->squares += squares[lane]; \
      found->total += totals[lane]; \
      found->low = lows[lane] < found->low ? lows[lane] : found->low; \
      found->high = highs[lane] > found->high ? highs[lane] : found->high; \
    } \
  } \
  static void sound_##TYPE(const TYPE *numbers, int64_t count, Found *found) { \
    found->total = 0, found->low = INFINITY, found->high = -INFINITY; \
    for (int64_t at = 0; at < count; at++) { \
      double number = (double)READ(numbers[at]); \
      if (number != number) found->nan++; \
      else if (number - number != 0) found->infinite++; \
      else { \
        found->total += number; \
        found->low = number < found->low ? number : found->low; \
        found->high = number > found->high ? number : found->high; \
      } \
    } \
  } \
  WIDER static void bins_##TYPE( \
      const TYPE *numbers, const int64_t *starts, int64_t runs, int64_t length, int sound, double low, double factor, double middle, \
      int last, int64_t *counts) { \
    const double most = last; \
    int64_t tables[TABLES][MOST_BINS + 1] = {{0}}; /* the last bin is for numbers that are not finite */ \
    for (int64_t run = 0; run < runs; run++) { \
      const TYPE *first = numbers + (starts == NULL ? 0 : starts[run] * length); \
      int64_t at = 0; \
      for (; sound && at + LANES <= length; at += LANES) { \
        int32_t bins[LANES]; \
        for (int lane = 0; lane < LANES; lane++) { \
          double place = ((double)READ(first[at + lane]) - low) * factor + middle; \
          bins[lane] = (int32_t)(place < most ? place : most); \
        } \
        for (int lane = 0; lane < LANES; lane++) tables[lane % TABLES][bins[lane]]++; \
      } \
      for (; at < length; at++) { \
        double number = (double)READ(first[at]), place = (number - low) * factor + middle; \
        tables[0][number - number != 0 ? MOST_BINS : place < last ? (int32_t)place : last]++; \
      } \
    } \
    for (int bin = 0; bin <= last; bin++) \
      for (int table = 0; table < TABLES; table++) counts[bin] += tables[table][bin]; \
  }

STATISTICS(float, float, from_float)
STATISTICS(double, double, from_double)
STATISTICS(uint16_t, float, from_bfloat16)

static void whole(const void *numbers, int64_t count, int kind, Found *found) {
  if (kind == 'f') whole_float(numbers, count, found);
  else if (kind == 'd') whole_double(numbers, count, found);
  else whole_uint16_t(numbers, count, found);
}

/* Whether float64 holds the squares with all their digits. */
static int has_squares(const Found *found) {
  return isfinite(found->squares) && (found->squares >= 1e-290 || (found->low == 0 && found->high == 0));
}

PyDoc_STRVAR(statistics_doc,
"statistics(address, count, kind, bins, starts, runs, length)\n"
"\n"
"The norm, the lowest and the highest finite number, the sum of the finite ones, how many are finite, NaN and infinite,\n"
"and how many are in each bin from the lowest number to the highest one. None if float64 cannot hold the squares.\n"
"\n"
"The kind is f for float32, d for float64, b for bfloat16. The bins are those of all numbers if ``starts`` is 0; else of\n"
"``runs`` runs of ``length`` numbers, and ``starts`` is the address of their places, in runs, as int64.\n");

static PyObject *statistics(PyObject *module, PyObject *args) {
  unsigned long long address, starts;
  long long count, runs, length;
  int kind, bins;
  (void)module;
  if (!PyArg_ParseTuple(args, "KLCiKLL", &address, &count, &kind, &bins, &starts, &runs, &length)) return NULL;
  if (count < 1 || bins < 1 || bins > MOST_BINS || (kind != 'f' && kind != 'd' && kind != 'b') || !address)
    return PyErr_Format(PyExc_ValueError, "expected an address, numbers, at most %d bins, and the kind f, d or b", MOST_BINS);
  const void *numbers = (const void *)(uintptr_t)address;
  const int64_t *places = (const int64_t *)(uintptr_t)starts;
  Found found;
  int64_t counts[MOST_BINS] = {0};
  PyThreadState *others = count >= LONG_ENOUGH ? PyEval_SaveThread() : NULL;
  whole(numbers, count, kind, &found);
  if (!isfinite(found.squares)) {
    if (kind == 'f') sound_float(numbers, count, &found);
    else if (kind == 'd') sound_double(numbers, count, &found);
    else sound_uint16_t(numbers, count, &found);
  }
  int64_t finite = count - found.nan - found.infinite;
  double width = found.high - found.low, factor = width > 0 ? bins / width : 0, middle = width > 0 ? 0 : bins / 2;
  int fits = isfinite(found.squares) || found.nan + found.infinite > 0;
  fits = fits && (found.squares != found.squares || isinf(found.squares) || has_squares(&found));
  fits = fits && (!finite || (isfinite(factor) && isfinite(width)));
  if (fits && finite) {
    if (places == NULL) runs = 1, length = count;
    if (kind == 'f') bins_float(numbers, places, runs, length, finite == count, found.low, factor, middle, bins - 1, counts);
    else if (kind == 'd') bins_double(numbers, places, runs, length, finite == count, found.low, factor, middle, bins - 1, counts);
    else bins_uint16_t(numbers, places, runs, length, finite == count, found.low, factor, middle, bins - 1, counts);
  }
  if (others != NULL) PyEval_RestoreThread(others);
  if (!fits) Py_RETURN_NONE;
  PyObject *table = finite ? PyTuple_New(bins) : Py_NewRef(Py_None);
  if (table == NULL) return NULL;
  for (int bin = 0; finite && bin < bins; bin++) {
    PyObject *number = PyLong_FromLongLong(counts[bin]);
    if (number == NULL) { Py_DECREF(table); return NULL; }
    PyTuple_SET_ITEM(table, bin, number);
  }
  PyObject *low = finite ? PyFloat_FromDouble(found.low) : Py_NewRef(Py_None);
  PyObject *high = finite ? PyFloat_FromDouble(found.high) : Py_NewRef(Py_None);
  return Py_BuildValue("dNNdLLLN", sqrt(found.squares), low, high, found.total, (long long)finite, (long long)found.nan,
                       (long long)found.infinite, table);
}

PyDoc_STRVAR(norm_doc,
"norm(address, count, kind)\n"
"\n"
"The norm of the numbers, the same as in ``statistics``. None if it is not finite, or too small for float64.\n");

static PyObject *norm(PyObject *module, PyObject *args) {
  unsigned long long address;
  long long count;
  int kind;
  (void)module;
  if (!PyArg_ParseTuple(args, "KLC", &address, &count, &kind)) return NULL;
  if (count < 1 || (kind != 'f' && kind != 'd' && kind != 'b') || !address)
    return PyErr_Format(PyExc_ValueError, "expected an address, numbers, and the kind f, d or b");
  Found found;
  PyThreadState *others = count >= LONG_ENOUGH ? PyEval_SaveThread() : NULL;
  whole((const void *)(uintptr_t)address, count, kind, &found);
  if (others != NULL) PyEval_RestoreThread(others);
  if (!has_squares(&found)) Py_RETURN_NONE;
  return PyFloat_FromDouble(sqrt(found.squares));
}

static PyMethodDef functions[] = {
    {"statistics", statistics, METH_VARARGS, statistics_doc},
    {"norm", norm, METH_VARARGS, norm_doc},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "one_pass", .m_doc = "The statistics of many numbers.", .m_size = 0, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_one_pass(void) { return PyModule_Create(&module); }
