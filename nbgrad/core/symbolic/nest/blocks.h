/* The loop of the interpreter: each instruction runs over one block of rows and columns. Included once for each
   instruction set; VECTOR(name) gives the names. */

INLINE long VECTOR(at)(const int64_t *table, long number) {
  long offset = 0; /* table: how many dimensions, then size and stride of each, outermost first */
  for (long k = table[0] - 1; k >= 0; k--) {
    long size = table[1 + 2 * k];
    offset += number % size * table[2 + 2 * k];
    number /= size;
  }
  return offset;
}

/* Sums of up to PIECE numbers are taken in float32, sixteen partial sums side by side; sums of those in float64. */
INLINE double VECTOR(row_sum)(const float *a, long n) {
  double total = 0;
  for (long start = 0; start < n; start += PIECE) {
    long end = n - start < PIECE ? n : start + PIECE, j = start;
    VECTOR(sixteen) partial = {{{0}}};
    for (; j + 16 <= end; j += 16)
      for (int k = 0; k < 16 / WIDTH; k++) partial.part[k] += VECTOR(load)(a + j + k * WIDTH);
    for (int k = 0; j < end; j += WIDTH, k++)
      partial.part[k] += end - j < WIDTH ? VECTOR(load_part)(a + j, end - j) : VECTOR(load)(a + j);
    total += (double)VECTOR(sum_of)(partial);
  }
  return total;
}
INLINE float VECTOR(row_max)(const float *a, long n) {
  VECTOR(sixteen) most;
  long j = 0;
  for (int k = 0; k < 16 / WIDTH; k++) most.part[k] = VECTOR(spread)(a[0]);
  for (; j + 16 <= n; j += 16)
    for (int k = 0; k < 16 / WIDTH; k++) most.part[k] = VECTOR(maximum)(most.part[k], VECTOR(load)(a + j + k * WIDTH));
  for (; j < n; j++) most.part[0] = VECTOR(maximum)(most.part[0], VECTOR(spread)(a[j]));
  return VECTOR(largest_of)(most);
}
INLINE double VECTOR(larger)(double a, double b) { return a > b || a != a ? a : b; }

static void VECTOR(gather)(const Instruction *i, const int64_t *words, float *const *place, const Span *at) {
  const int64_t *rows = words + i->table, *columns = rows + 1 + 2 * rows[0];
  const float *from = place[i->a];
  float *to = place[i->to];
  for (long r = 0; r < at->rows; r++) {
    const float *row = from + VECTOR(at)(rows, at->row + r);
    if (i->by_rows) to[r] = *row;
    else if (!columns[0]) for (long j = 0; j < at->columns; j++) to[r * at->columns + j] = *row;
    else if (columns[0] == 1 && columns[2] == 1 && columns[1] > at->column + at->columns - 1)
      memcpy(to + r * at->columns, row + at->column, (size_t)at->columns * sizeof(float));
    else for (long j = 0; j < at->columns; j++) to[r * at->columns + j] = row[VECTOR(at)(columns, at->column + j)];
  }
}

static void VECTOR(accumulate)(const Instruction *i, const Accumulator *into, const int64_t *words,
                               float *const *place, double *doubles, float *partial, const Span *at) {
  float *columns = partial + into->partial;
  const float *from = place[i->a];
  double *total = doubles + into->place;
  long n = at->columns;
  int largest = i->op == OP_ACCUMULATE_MAX;
  if (into->columns && !into->table) { /* over all rows, the columns stay */
    if (largest)
      for (long r = 0; r < at->rows; r++) for (long j = 0; j < n; j++)
        total[at->column + j] = VECTOR(larger)(total[at->column + j], (double)from[r * n + j]);
    else if (at->rows == 1) for (long j = 0; j < n; j++) total[at->column + j] += (double)from[j];
    else for (long top = 0; top < at->rows; top += TALLEST) {
      long end = at->rows - top < TALLEST ? at->rows : top + TALLEST;
      memcpy(columns, from + top * n, (size_t)n * sizeof(float));
      for (long r = top + 1; r < end; r++) {
        long j = 0;
        for (; j + WIDTH <= n; j += WIDTH) VECTOR(store)(columns + j, VECTOR(load)(columns + j) + VECTOR(load)(from + r * n + j));
        for (; j < n; j++) columns[j] += from[r * n + j];
      }
      for (long j = 0; j < n; j++) total[at->column + j] += (double)columns[j];
    }
    return;
  }
  for (long r = 0; r < at->rows; r++) {
    double *here = total + (into->table ? VECTOR(at)(words + into->table, at->row + r) : 0);
    const float *row = from + r * n;
    if (into->columns) {
      here += at->column;
      if (largest) for (long j = 0; j < n; j++) here[j] = VECTOR(larger)(here[j], (double)row[j]);
      else for (long j = 0; j < n; j++) here[j] += (double)row[j];
    } else if (largest) *here = VECTOR(larger)(*here, (double)VECTOR(row_max)(row, n));
    else *here += VECTOR(row_sum)(row, n);
  }
}

/* An operand that has one number a row is spread to a vector, from which every step of the loop reads again. */
#define OPERAND(name, index) \
  const float *name##_row = place[i->index] + r * name##_step; \
  if (!i->index##_wide) { VECTOR(store)(name##_held, VECTOR(spread)(*name##_row)); name##_row = name##_held; } \
  const long name##_mask = i->index##_wide ? -1 : 0;
#define STEP_OF(name, index) \
  const long name##_step = i->index##_step == 2 ? n : i->index##_step; \
  float name##_held[WIDTH];
#define ROWS for (long r = 0; r < rows; r++)
#define UNARY(OP, function) case OP: { STEP_OF(a, a) ROWS { OPERAND(a, a) float *to = place[i->to] + r * n; long j = 0; \
    for (; j + WIDTH <= n; j += WIDTH) VECTOR(store)(to + j, VECTOR(function)(VECTOR(load)(a_row + (j & a_mask)))); \
    if (j < n) VECTOR(store_part)(to + j, VECTOR(function)(VECTOR(load_part)(a_row + (j & a_mask), n - j)), n - j); \
  } } break;
#define BINARY(OP, function) case OP: { STEP_OF(a, a) STEP_OF(b, b) ROWS { OPERAND(a, a) OPERAND(b, b) \
    float *to = place[i->to] + r * n; long j = 0; \
    for (; j + WIDTH <= n; j += WIDTH) \
      VECTOR(store)(to + j, VECTOR(function)(VECTOR(load)(a_row + (j & a_mask)), VECTOR(load)(b_row + (j & b_mask)))); \
    if (j < n) VECTOR(store_part)(to + j, VECTOR(function)(VECTOR(load_part)(a_row + (j & a_mask), n - j), \
      VECTOR(load_part)(b_row + (j & b_mask), n - j)), n - j); \
  } } break;
#define TERNARY(OP, function) case OP: { STEP_OF(a, a) STEP_OF(b, b) STEP_OF(c, c) \
    ROWS { OPERAND(a, a) OPERAND(b, b) OPERAND(c, c) float *to = place[i->to] + r * n; long j = 0; \
    for (; j + WIDTH <= n; j += WIDTH) VECTOR(store)(to + j, VECTOR(function)(VECTOR(load)(a_row + (j & a_mask)), \
      VECTOR(load)(b_row + (j & b_mask)), VECTOR(load)(c_row + (j & c_mask)))); \
    if (j < n) VECTOR(store_part)(to + j, VECTOR(function)(VECTOR(load_part)(a_row + (j & a_mask), n - j), \
      VECTOR(load_part)(b_row + (j & b_mask), n - j), VECTOR(load_part)(c_row + (j & c_mask), n - j)), n - j); \
  } } break;

/* The commonest steps, where every operand has as many numbers as the result or a single one, and vectors are full. */
#define FAST_LOOP(a_value, b_value, sign) { \
    const float *a = place[i->a], *b = place[i->b]; float *to = place[i->to]; long j = 0; \
    const FLOATS a_one = VECTOR(spread)(*a), b_one = VECTOR(spread)(*b); (void)a_one; (void)b_one; \
    do { VECTOR(store)(to + j, a_value sign b_value); j += WIDTH; } while (j < n); \
  } continue;
#define FAST(OP, sign) \
    case 3 * OP: FAST_LOOP(VECTOR(load)(a + j), VECTOR(load)(b + j), sign) \
    case 3 * OP + 1: FAST_LOOP(VECTOR(load)(a + j), b_one, sign) \
    case 3 * OP + 2: FAST_LOOP(a_one, VECTOR(load)(b + j), sign)

static void VECTOR(block)(const Nest *nest, const int64_t *words, float *const *place, double *doubles, float *partial,
                          const Span *at) {
  const Instruction *end = nest->instructions + nest->count;
  for (const Instruction *i = nest->instructions; i < end; i++) {
    const long rows = i->spread ? at->rows : 1;
    const long n = i->spread ? at->columns : i->by_rows ? at->rows : at->rows * at->columns;
    if (i->fast >= 0 && n % WIDTH == 0 && rows == 1)
      switch (i->fast) { FAST(OP_ADD, +) FAST(OP_SUB, -) FAST(OP_MUL, *) FAST(OP_DIV, /) }
    switch (i->op) {
      POINTWISE(UNARY, BINARY, TERNARY)
      case OP_GATHER: VECTOR(gather)(i, words, place, at); break;
      case OP_ROW_SUM:
        for (long r = 0; r < at->rows; r++)
          place[i->to][r] = (float)VECTOR(row_sum)(place[i->a] + r * at->columns, at->columns);
        break;
      case OP_ROW_MAX:
        for (long r = 0; r < at->rows; r++)
          place[i->to][r] = VECTOR(row_max)(place[i->a] + r * at->columns, at->columns);
        break;
      case OP_ACCUMULATE_SUM:
      case OP_ACCUMULATE_MAX:
        VECTOR(accumulate)(i, nest->accumulators + i->table, words, place, doubles, partial, at);
    }
  }
}

static void VECTOR(run)(const Program *program, float **bases, double *doubles, float *partial, float **place) {
  for (const Nest *nest = program->nests; nest < program->nests + program->count; nest++) {
    for (long k = 0; k < nest->registers; k++) place[k] = bases[nest->places[k].base] + nest->places[k].offset;
    for (long k = 0; k < nest->accumulated; k++) {
      const Accumulator *one = nest->accumulators + k;
      for (long j = 0; j < one->count; j++) doubles[one->place + j] = one->largest ? -(double)INFINITY : 0.0;
    }
    Span at;
    for (at.row = 0; at.row < nest->rows; at.row += nest->block_rows) {
      at.rows = nest->rows - at.row < nest->block_rows ? nest->rows - at.row : nest->block_rows;
      for (at.column = 0; at.column < nest->columns; at.column += nest->block_columns) {
        at.columns = nest->columns - at.column < nest->block_columns ? nest->columns - at.column : nest->block_columns;
        if (at.row | at.column)
          for (long k = 0; k < nest->moving; k++) {
            const Place *one = nest->places + k; /* those that move come first */
            place[k] = bases[one->base] + one->offset + at.row * one->row_step + at.column * one->column_step;
          }
        VECTOR(block)(nest, words_of(program), place, doubles, partial, &at);
      }
    }
    for (long k = 0; k < nest->accumulated; k++) {
      const Accumulator *one = nest->accumulators + k;
      float *to = bases[one->result.base] + one->result.offset;
      for (long j = 0; j < one->count; j++) to[j] = (float)doubles[one->place + j];
    }
  }
}
#undef FAST
#undef FAST_LOOP
#undef OPERAND
#undef STEP_OF
#undef ROWS
#undef UNARY
#undef BINARY
#undef TERNARY
