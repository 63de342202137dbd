// A program in a browser: an interpreter of aten's core operators on small tensors. Pages of programs and of graphs have it.
// A tensor is {shape, dtype, data}: its numbers row by row in a Float64Array, rounded to float32 where it has that type.

const size = (shape) => shape.reduce((product, one) => product * one, 1);

const rounded = (dtype) =>
  dtype === "float32" ? Math.fround : dtype === "bool" ? (x) => (x == 0 ? 0 : 1) : dtype.startsWith("int") ? Math.trunc : (x) => x;

const make = (kind, data) => ({ shape: kind.shape, dtype: kind.dtype, data });

/** A tensor of a kind, filled from the position in it. */
function fill(kind, value) {
  const round = rounded(kind.dtype);
  const data = new Float64Array(size(kind.shape));
  for (let at = 0; at < data.length; at++) data[at] = round(value(at));
  return make(kind, data);
}

function strides(shape) {
  const found = new Array(shape.length).fill(1);
  for (let axis = shape.length - 2; axis >= 0; axis--) found[axis] = found[axis + 1] * shape[axis + 1];
  return found;
}

/** For each position in `shape` the position in a tensor whose dimensions have these steps. */
function positions(shape, steps, start = 0) {
  const found = new Int32Array(size(shape));
  const own = strides(shape);
  for (let at = 0; at < found.length; at++) {
    let rest = at;
    let place = start;
    for (let axis = 0; axis < shape.length; axis++) {
      const index = Math.floor(rest / own[axis]);
      rest -= index * own[axis];
      place += index * steps[axis];
    }
    found[at] = place;
  }
  return found;
}

/** For each position in `shape` the position in a tensor that is stretched to it. */
function stretched(from, shape) {
  const own = strides(from);
  const lead = shape.length - from.length;
  return positions(shape, shape.map((_, axis) => (axis < lead || from[axis - lead] === 1 ? 0 : own[axis - lead])));
}

/** A tensor or a number as a function of the position in `shape`. */
function reader(given, shape) {
  if (typeof given === "number" || typeof given === "boolean") return () => +given;
  if (String(given.shape) === String(shape)) return (at) => given.data[at];
  const places = stretched(given.shape, shape);
  return (at) => given.data[places[at]];
}

const axisOf = (axis, shape) => (axis < 0 ? axis + shape.length : axis);

/** Each line of a tensor along some axes: where it begins, and the steps to its elements. */
function lines(shape, dims) {
  const none = dims === null || dims === undefined || (Array.isArray(dims) && !dims.length);
  const axes = none ? shape.map((_, axis) => axis) : [dims].flat().map((axis) => axisOf(axis, shape));
  const own = strides(shape);
  const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const pick = (list) => [list.map((axis) => shape[axis]), list.map((axis) => own[axis])];
  return { starts: positions(...pick(kept)), offsets: positions(...pick(axes)) };
}

/** Sums in pairs lose less than sums in order. */
function total(values, begin = 0, end = values.length) {
  if (end - begin <= 8) {
    let sum = 0;
    for (let at = begin; at < end; at++) sum += values[at];
    return sum;
  }
  const middle = (begin + end) >> 1;
  return total(values, begin, middle) + total(values, middle, end);
}

const reduce = (combine) => (kind, x, dims) => {
  const { starts, offsets } = lines(x.shape, dims);
  return fill(kind, (at) => combine(Float64Array.from(offsets, (offset) => x.data[starts[at] + offset])));
};

const unary = (compute) => (kind, x) => fill(kind, (at) => compute(x.data[at]));

const binary = (compute) => (kind, x, y, ...settings) => {
  const [left, right] = [reader(x, kind.shape), reader(y, kind.shape)];
  return fill(kind, (at) => compute(left(at), right(at), ...settings));
};

/** The error function: a series whose terms are all positive. */
function erf(x) {
  if (!(Math.abs(x) < 6)) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

function even(x) {
  const low = Math.floor(x);
  const off = x - low;
  return off < 0.5 || (off === 0.5 && low % 2 === 0) ? low : low + 1;
}

/** Products of matrices; `batch` of them, or one. */
function matmul(kind, x, y) {
  const [left, right] = [x.shape.length === 1 ? [1, ...x.shape] : x.shape, y.shape.length === 1 ? [...y.shape, 1] : y.shape];
  const [rows, inner] = left.slice(-2);
  const columns = right.at(-1);
  const parts = new Float64Array(inner);
  return fill(kind, (at) => {
    const column = at % columns;
    const row = Math.floor(at / columns);
    const batch = Math.floor(row / rows);
    for (let k = 0; k < inner; k++) parts[k] = x.data[row * inner + k] * y.data[(batch * inner + k) * columns + column];
    return total(parts);
  });
}

/** Each line along an axis by itself, as for a softmax. */
const along = (compute) => (kind, x, dim) => {
  const { starts, offsets } = lines(x.shape, x.shape.length ? dim : []);
  const data = new Float64Array(x.data.length);
  const round = rounded(kind.dtype);
  for (const start of starts) {
    const line = compute(Float64Array.from(offsets, (offset) => x.data[start + offset]));
    offsets.forEach((offset, at) => (data[start + offset] = round(line[at])));
  }
  return make(kind, data);
};

function softmax(line) {
  const top = line.reduce((one, other) => Math.max(one, other), -Infinity);
  const grown = line.map((x) => Math.exp(x - top));
  const sum = total(grown);
  return grown.map((x) => x / sum);
}

function logSoftmax(line) {
  const top = line.reduce((one, other) => Math.max(one, other), -Infinity);
  const rest = Math.log(total(line.map((x) => Math.exp(x - top))));
  return line.map((x) => x - top - rest);
}

function running(line) {
  let sum = 0;
  return line.map((x) => (sum += x));
}

const same = (kind, x) => fill(kind, (at) => x.data[at]);

const constant = (value) => (kind) => fill(kind, () => value);

function permute(kind, x, dims) {
  const own = strides(x.shape);
  const places = positions(kind.shape, dims.map((axis) => own[axisOf(axis, x.shape)]));
  return fill(kind, (at) => x.data[places[at]]);
}

function slice(kind, x, dim = 0, start = 0, _end = null, step = 1) {
  const axis = axisOf(dim, x.shape);
  const [own, length] = [strides(x.shape), x.shape[axis]];
  const from = start ?? 0;
  const first = Math.min(Math.max(from < 0 ? from + length : from, 0), length);
  const places = positions(kind.shape, own.map((one, at) => (at === axis ? one * step : one)), first * own[axis]);
  return fill(kind, (at) => x.data[places[at]]);
}

/** A tensor with another one at some places along an axis. */
function put(kind, x, source, axis, first, step) {
  const own = strides(x.shape);
  const data = Float64Array.from(x.data);
  const places = positions(source.shape, own.map((one, at) => (at === axis ? one * step : one)), first * own[axis]);
  places.forEach((place, at) => (data[place] = source.data[at]));
  return make(kind, data);
}

function sliceScatter(kind, x, source, dim = 0, start = 0, _end = null, step = 1) {
  const axis = axisOf(dim, x.shape);
  const from = start ?? 0;
  const first = Math.min(Math.max(from < 0 ? from + x.shape[axis] : from, 0), x.shape[axis]);
  return put(kind, x, source, axis, first, step);
}

function selectScatter(kind, x, source, dim, at) {
  const axis = axisOf(dim, x.shape);
  const shape = x.shape.map((one, each) => (each === axis ? 1 : one));
  return put(kind, x, { ...source, shape }, axis, at < 0 ? at + x.shape[axis] : at, 1);
}

function flip(kind, x, dims) {
  const [own, turned] = [strides(x.shape), dims.map((axis) => axisOf(axis, x.shape))];
  const start = turned.reduce((sum, axis) => sum + (x.shape[axis] - 1) * own[axis], 0);
  const places = positions(kind.shape, own.map((one, axis) => (turned.includes(axis) ? -one : one)), start);
  return fill(kind, (at) => x.data[places[at]]);
}

function select(kind, x, dim, index) {
  const axis = axisOf(dim, x.shape);
  const own = strides(x.shape);
  const place = index < 0 ? index + x.shape[axis] : index;
  const places = positions(kind.shape, own.filter((_, at) => at !== axis), place * own[axis]);
  return fill(kind, (at) => x.data[places[at]]);
}

function cat(kind, tensors, dim = 0) {
  const axis = axisOf(dim, kind.shape);
  const own = strides(kind.shape);
  const data = new Float64Array(size(kind.shape));
  let begin = 0;
  for (const one of tensors.filter((each) => each.shape.length === kind.shape.length)) {
    positions(one.shape, own, begin * own[axis]).forEach((place, at) => (data[place] = one.data[at]));
    begin += one.shape[axis];
  }
  return make(kind, data);
}

function split(kinds, x, _sizes, dim = 0) {
  let begin = 0;
  return kinds.map((kind) => {
    const part = slice(kind, x, dim, begin);
    begin += kind.shape[axisOf(dim, x.shape)];
    return part;
  });
}

function index(list, at, length) {
  const found = list.data[at];
  const place = found < 0 ? found + length : found;
  if (!(place >= 0 && place < length)) throw new Error(`${found} is no position among ${length}`);
  return place;
}

/** For each element of `at`, its place in `x` when its index along an axis is that of the element. */
function places(x, dim, at) {
  if (!x.shape.length) return new Int32Array(at.data.length);
  const axis = axisOf(dim, x.shape);
  const own = strides(x.shape);
  const others = positions(at.shape, own.map((one, each) => (each === axis ? 0 : one)));
  return others.map((place, each) => place + own[axis] * index(at, each, x.shape[axis]));
}

function gather(kind, x, dim, at) {
  const found = places(x, dim, at);
  return fill(kind, (each) => x.data[found[each]]);
}

const scatter = (combine) => (kind, x, dim, at, source) => {
  const data = Float64Array.from(x.data);
  const round = rounded(kind.dtype);
  const read = typeof source === "number" ? () => source : reader(slice({ ...source, shape: at.shape }, source), at.shape);
  places(x, dim, at).forEach((place, each) => (data[place] = round(combine(data[place], read(each)))));
  return make(kind, data);
};

/** Parts of a tensor by their numbers along an axis. */
function take(kind, x, axis, at) {
  const [width, count, length] = [size(x.shape.slice(axis + 1)), at.data.length, x.shape[axis]];
  return fill(kind, (each) => {
    const place = index(at, Math.floor(each / width) % count, length);
    return x.data[(Math.floor(each / (width * count)) * length + place) * width + (each % width)];
  });
}

function indexPut(kind, x, [at], values, accumulate = false) {
  const data = Float64Array.from(x.data);
  const [width, round] = [size(x.shape.slice(1)), rounded(kind.dtype)];
  const read = reader(values, [...at.shape, ...x.shape.slice(1)]);
  for (let each = 0; each < at.data.length * width; each++) {
    const place = index(at, Math.floor(each / width), x.shape[0]) * width + (each % width);
    data[place] = round(accumulate ? data[place] + read(each) : read(each));
  }
  return make(kind, data);
}

function layerNorm([kind, ...stats], x, shape, weight, bias, eps) {
  const [width, read] = [size(shape), (given, at) => (given ? given.data[at] : null)];
  const means = [];
  const inverses = [];
  for (let begin = 0; begin < x.data.length; begin += width) {
    const line = x.data.slice(begin, begin + width);
    const mean = total(line) / width;
    means.push(mean);
    inverses.push(1 / Math.sqrt(total(line.map((one) => (one - mean) ** 2)) / width + eps));
  }
  const normal = (at) => (x.data[at] - means[Math.floor(at / width)]) * inverses[Math.floor(at / width)];
  const made = fill(kind, (at) => normal(at) * (read(weight, at % width) ?? 1) + (read(bias, at % width) ?? 0));
  return [made, fill(stats[0], (at) => means[at]), fill(stats[1], (at) => inverses[at])];
}

function spread(line, correction = 1) {
  const mean = total(line) / line.length;
  return total(line.map((x) => (x - mean) ** 2)) / (line.length - (correction ?? 1));
}

const top = (line) => line.reduce((best, x, at) => (x > line[best] || (x !== x && line[best] === line[best]) ? at : best), 0);

const divided = (x, y, mode) => (mode === "floor" ? Math.floor(x / y) : mode === "trunc" ? Math.trunc(x / y) : x / y);

const OPS = {
  abs: unary(Math.abs), acos: unary(Math.acos), acosh: unary(Math.acosh), asin: unary(Math.asin),
  asinh: unary(Math.asinh), atan: unary(Math.atan), atanh: unary(Math.atanh), ceil: unary(Math.ceil),
  cos: unary(Math.cos), cosh: unary(Math.cosh), erf: unary(erf), exp: unary(Math.exp), exp2: unary((x) => 2 ** x),
  expm1: unary(Math.expm1), floor: unary(Math.floor), isinf: unary((x) => x === Infinity || x === -Infinity),
  isnan: unary((x) => x !== x), log: unary(Math.log), log10: unary(Math.log10), log1p: unary(Math.log1p),
  log2: unary(Math.log2), logical_not: unary((x) => !x), neg: unary((x) => -x), reciprocal: unary((x) => 1 / x),
  relu: unary((x) => (x <= 0 ? 0 : x)), round: unary(even), rsqrt: unary((x) => 1 / Math.sqrt(x)),
  sigmoid: unary((x) => 1 / (1 + Math.exp(-x))), sign: unary(Math.sign), sin: unary(Math.sin), sinh: unary(Math.sinh),
  sqrt: unary(Math.sqrt), tan: unary(Math.tan), tanh: unary(Math.tanh), trunc: unary(Math.trunc),

  add: binary((x, y, alpha = 1) => x + alpha * y), sub: binary((x, y, alpha = 1) => x - alpha * y),
  mul: binary((x, y) => x * y), div: binary(divided), pow: binary((x, y) => x ** y),
  fmod: binary((x, y) => x % y), remainder: binary((x, y) => x - Math.floor(x / y) * y),
  maximum: binary((x, y) => Math.max(x, y)), minimum: binary((x, y) => Math.min(x, y)),
  eq: binary((x, y) => x === y), ne: binary((x, y) => x !== y), lt: binary((x, y) => x < y),
  le: binary((x, y) => x <= y), gt: binary((x, y) => x > y), ge: binary((x, y) => x >= y),
  logical_and: binary((x, y) => x && y), logical_or: binary((x, y) => x || y), logical_xor: binary((x, y) => !x !== !y),

  where: (kind, condition, x, y) => {
    const [chosen, left, right] = [condition, x, y].map((one) => reader(one, kind.shape));
    return fill(kind, (at) => (chosen(at) ? left(at) : right(at)));
  },
  clamp: (kind, x, low = null, high = null) => {
    const [least, most] = [low ?? -Infinity, high ?? Infinity].map((one) => reader(one, kind.shape));
    return fill(kind, (at) => Math.min(Math.max(x.data[at], least(at)), most(at)));
  },
  leaky_relu: (kind, x, slope) => fill(kind, (at) => (x.data[at] > 0 ? x.data[at] : x.data[at] * slope)),
  elu: (kind, x, alpha, scale, inner) =>
    fill(kind, (at) => scale * (x.data[at] > 0 ? x.data[at] : alpha * Math.expm1(inner * x.data[at]))),
  gelu: (kind, x, way) =>
    unary((v) => {
      const grown = way === "tanh" ? Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)) : erf(v * Math.SQRT1_2);
      return 0.5 * v * (1 + grown);
    })(kind, x),

  sum: reduce(total), mean: reduce((line) => total(line) / line.length),
  amax: reduce((line) => line.reduce((x, y) => Math.max(x, y))), amin: reduce((line) => line.reduce((x, y) => Math.min(x, y))),
  prod: reduce((line) => line.reduce((x, y) => x * y, 1)), argmax: reduce(top),
  max: (kind, x, dim = null) =>
    Array.isArray(kind)
      ? [reduce((line) => line[top(line)])(kind[0], x, dim), reduce(top)(kind[1], x, dim)]
      : reduce((line) => line[top(line)])(kind, x, dim),
  var: (kind, x, dims, correction) => reduce((line) => spread(line, correction))(kind, x, dims),
  cumsum: along(running), _softmax: along(softmax), _log_softmax: along(logSoftmax), native_layer_norm: layerNorm,

  mm: matmul, bmm: matmul, mv: matmul, dot: matmul,
  addmm: (kind, bias, x, y, beta = 1, alpha = 1) => {
    const [product, added] = [matmul({ ...kind, dtype: "float64" }, x, y), reader(bias, kind.shape)];
    return fill(kind, (at) => beta * added(at) + alpha * product.data[at]);
  },

  view: same, _unsafe_view: same, reshape: same, unsqueeze: same, squeeze: same, clone: same, alias: same, detach: same,
  _to_copy: same, lift_fresh_copy: same, permute, slice, select, flip, cat, split, split_with_sizes: split, gather,
  t: (kind, x) => permute(kind, x, x.shape.map((_, axis) => axis).reverse()),
  transpose: (kind, x, one, other) => {
    const order = x.shape.map((_, axis) => axis);
    const [a, b] = [axisOf(one, x.shape), axisOf(other, x.shape)];
    [order[a], order[b]] = [b, a];
    return permute(kind, x, order);
  },
  repeat: (kind, x) => {
    const lead = kind.shape.length - x.shape.length;
    const [own, there] = [strides(kind.shape), strides(x.shape)];
    return fill(kind, (each) => {
      let place = 0;
      x.shape.forEach((length, axis) => (place += (Math.floor(each / own[axis + lead]) % length) * there[axis]));
      return x.data[place];
    });
  },
  expand: (kind, x) => fill(kind, reader(x, kind.shape)),
  copy: (kind, _, source) => fill(kind, reader(source, kind.shape)),
  full: (kind, _, value) => fill(kind, () => value), full_like: (kind, _, value) => fill(kind, () => value),
  scalar_tensor: (kind, value) => fill(kind, () => value),
  zeros: constant(0), zeros_like: constant(0), new_zeros: constant(0), ones: constant(1), ones_like: constant(1),
  empty: constant(0), empty_like: constant(0), empty_permuted: constant(0), empty_strided: constant(0), new_empty: constant(0),
  slice_scatter: sliceScatter, select_scatter: selectScatter,
  scatter: scatter((_, x) => x), scatter_add: scatter((x, y) => x + y),
  embedding: (kind, table, at) => take(kind, table, 0, at),
  index: (kind, x, list) => take(kind, x, list.findIndex((one) => one !== null), list.find((one) => one !== null)),
  index_put: indexPut,
  index_select: (kind, x, dim, at) => take(kind, x, axisOf(dim, x.shape), at),
};

/** A number of the program as JSON holds it: what JSON has no sign for is a text. */
const number = (given) => (given === "inf" ? Infinity : given === "-inf" ? -Infinity : given === "nan" ? NaN : given);

const tensor = ({ shape, dtype, data }) => fill({ shape, dtype }, (at) => number(data[at]));

/**
 * Run a program.
 *
 * @param program as page.py writes it
 * @param inputs the tensors by name that take the place of the program's own; the others stay
 * @returns the tensors that leave it, by name, those of its steps, and the values of all nodes
 */
function run(program, inputs = {}) {
  const values = [];
  for (const given of program.given) values.push(inputs[given.name] ?? tensor(given));
  const part = (given) => {
    if (Array.isArray(given)) return given.map(part);
    if (given === null || typeof given !== "object") return given;
    return "v" in given ? values[given.v] : number(given.n);
  };
  for (const { op, args, kind, of } of program.nodes) {
    if (op === "constant") values.push(tensor(kind));
    else if (op === "getitem") values.push(values[of[0]][of[1]]);
    else values.push(OPS[op](kind, ...args.map(part)));
  }
  const named = (list) => Object.fromEntries(list.map(({ name, v }) => [name, values[v]]));
  return { results: named(program.results ?? []), steps: named(program.steps.flatMap(({ made }) => made)), values };
}
