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
/* So many numbers get their bins at once, and are counted in pairs, which takes half as many steps, and in so many tables
   in turn: a count need not wait for the one before, often of the same pair of bins. */
#define BLOCK 512
#define TABLES 8

/* A run of a sample is asked for so many runs before it is counted: each is in another place of the memory. */
#define AHEAD 16
#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch(place)
#else
#define PREFETCH(place)
#endif

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

/* Count the pairs of the numbers in both halves of a block. */
WIDER static void count_pairs(const int32_t *bins, int32_t width, uint32_t pairs[TABLES][MOST_BINS * MOST_BINS]) {
  int32_t both[BLOCK / 2];
  for (int at = 0; at < BLOCK / 2; at++) both[at] = bins[at] * width + bins[at + BLOCK / 2];
  for (int at = 0; at < BLOCK / 2; at += TABLES)
    for (int table = 0; table < TABLES; table++) pairs[table][both[at + table]]++;
}

static void add_pairs(uint32_t pairs[TABLES][MOST_BINS * MOST_BINS], int width, int64_t *counts) {
  for (int one = 0; one < width; one++)
    for (int other = 0; other < width; other++)
      for (int table = 0; table < TABLES; table++) {
        uint32_t count = pairs[table][one * width + other];
        counts[one] += count, counts[other] += count;
      }
}

/* TYPE: of the numbers in memory; REAL: in which they are compared; READ: from the one to the other.
   whole_: all numbers are taken to be finite; if they are not, the squares tell. sound_: NaN and infinity are counted.
   places_: the bin of each number of a block.
   bins_: how many of the numbers, in runs that begin at `starts`, lie in each of equal parts from `low` on. */
#define STATISTICS(TYPE, REAL, READ) \
  WIDER static void whole_##TYPE(const TYPE *numbers, int64_t count, Found *found) { \
    double squares[LANES] = {0}, totals[LANES] = {0}; \
    REAL lows[LANES], highs[LANES]; \
    for (int lane = 0; lane < LANES; lane++) lows[lane] = (REAL)INFINITY, highs[lane] = (REAL)-INFINITY; \
    int64_t at = 0; \
    for (; at + LANES <= count; at += LANES) { \
      PREFETCH(numbers + at + 1024); \
      for (int lane = 0; lane < LANES; lane++) { \
        REAL number = READ(numbers[at + lane]); \
        lows[lane] = number < lows[lane] ? number : lows[lane]; \
        highs[lane] = number > highs[lane] ? number : highs[lane]; \
        double wide = (double)number; \
        totals[lane] += wide; \
        squares[lane] += wide * wide; \
      } \
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
  WIDER static void places_##TYPE( \
      const TYPE *numbers, double low, double factor, double middle, int32_t last, int32_t *bins) { \
    for (int at = 0; at < BLOCK; at++) { \
      int32_t bin = (int32_t)(((double)READ(numbers[at]) - low) * factor + middle); \
      bins[at] = bin < last ? bin : last; \
    } \
  } \
  static void bins_##TYPE( \
      const TYPE *numbers, const int64_t *starts, int64_t runs, int64_t length, int sound, double low, double factor, double middle, \
      int last, int64_t *counts) { \
    TYPE block[BLOCK]; \
    int32_t bins[BLOCK]; \
    uint32_t pairs[TABLES][MOST_BINS * MOST_BINS]; \
    int64_t held = 0; \
    for (int table = 0; table < TABLES; table++) memset(pairs[table], 0, sizeof pairs[table] * (size_t)(last + 1) / MOST_BINS); \
    for (int64_t run = 0; run < runs; run++) { \
      const TYPE *first = numbers + (starts == NULL ? 0 : starts[run] * length); \
      if (starts != NULL && run + AHEAD < runs) PREFETCH(numbers + starts[run + AHEAD] * length); \
      for (int64_t at = 0; at < length;) { \
        int64_t many = length - at < BLOCK - held ? length - at : BLOCK - held; \
        memcpy(block + held, first + at, (size_t)many * sizeof(TYPE)); \
        held += many, at += many; \
        if (held < BLOCK && (at < length || run < runs - 1)) continue; \
        if (held == BLOCK && sound) { \
          places_##TYPE(block, low, factor, middle, last, bins); \
          count_pairs(bins, last + 1, pairs); \
        } else \
          for (int64_t one = 0; one < held; one++) { \
            double number = (double)READ(block[one]), place = (number - low) * factor + middle; \
            if (number - number == 0) counts[place < last ? (int32_t)place : last]++; \
          } \
        held = 0; \
      } \
    } \
    add_pairs(pairs, last + 1, counts); \
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

PyDoc_STRVAR(gather_doc,
"gather(address, starts, runs, bytes, room)\n"
"\n"
"Copy ``runs`` runs of so many bytes each to the address ``room``, one after another; ``starts`` is as in ``statistics``.\n");

static PyObject *gather(PyObject *module, PyObject *args) {
  unsigned long long address, starts, room;
  long long runs, length;
  (void)module;
  if (!PyArg_ParseTuple(args, "KKLLK", &address, &starts, &runs, &length, &room)) return NULL;
  if (runs < 1 || length < 1 || !address || !starts || !room)
    return PyErr_Format(PyExc_ValueError, "expected three addresses, runs and bytes");
  const char *memory = (const char *)(uintptr_t)address;
  const int64_t *places = (const int64_t *)(uintptr_t)starts;
  char *copy = (char *)(uintptr_t)room;
  for (int64_t run = 0; run < runs; run++) {
    if (run + AHEAD < runs) PREFETCH(memory + places[run + AHEAD] * length);
    memcpy(copy + run * length, memory + places[run] * length, (size_t)length);
  }
  Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"gather", gather, METH_VARARGS, gather_doc},
    {"statistics", statistics, METH_VARARGS, statistics_doc},
    {"norm", norm, METH_VARARGS, norm_doc},
    {NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "one_pass", .m_doc = "The statistics of many numbers.", .m_size = 0, .m_methods = functions,
};

PyMODINIT_FUNC PyInit_one_pass(void) { return PyModule_Create(&module); }
