// A program in a browser: an interpreter of aten's core operators on small tensors. Pages of programs and of graphs have it.
// nbgrad/widgets/build.mjs makes kernels.js of it. tests/core/symbolic/test_page_kernels.py compares every kernel with torch.

/** A tensor without its numbers. */
export interface Kind {
  shape: number[];
  dtype: string;
}

/** The numbers stand row by row, rounded to float32 where the tensor has that type. */
export interface Tensor extends Kind {
  data: Float64Array;
}

/** A tensor as JSON holds it: what JSON has no sign for is a text. */
export interface Given extends Kind {
  name: string;
  data: (number | boolean | string)[];
}

type Scalar = number | boolean;
type Operand = Tensor | Scalar;
type Dims = number | number[] | null;
/** One operator: of the kind of its result, of several one each, and the arguments in the order of its schema. */
type Kernel = (kind: any, ...args: any[]) => Tensor | (Tensor | null)[];

interface Step {
  op: string;
  args: unknown[];
  kind: any;
  of: [node: number, place: number];
}

interface Named {
  name: string;
  v: number;
}

/** As page.py writes it. */
export interface Program {
  given: Given[];
  nodes: Step[];
  results?: Named[];
  steps: { made: Named[] }[];
}

export const size = (shape: number[]): number => shape.reduce((product, one) => product * one, 1);

const rounded = (dtype: string): ((x: number) => number) =>
  dtype === "float32" ? Math.fround : dtype === "bool" ? (x) => (x == 0 ? 0 : 1) : dtype.startsWith("int") ? Math.trunc : (x) => x;

/** A tensor of these numbers, each rounded to its type. */
function make({ shape, dtype }: Kind, data: Float64Array): Tensor {
  return { shape, dtype, data: data.map(rounded(dtype)) };
}

/** A tensor of a kind, filled from the position in it. */
export const fill = (kind: Kind, value: (at: number) => number): Tensor => make(kind, Float64Array.from({ length: size(kind.shape) }, (_, at) => value(at)));

const number = (given: number | boolean | string): number => (given === "inf" ? Infinity : given === "-inf" ? -Infinity : Number(given));

export const tensor = (given: Kind & Pick<Given, "data">): Tensor => fill(given, (at) => number(given.data[at]!));

function strides(shape: number[]): number[] {
  const found = shape.map(() => 1);
  for (let axis = shape.length - 2; axis >= 0; axis--) found[axis] = found[axis + 1]! * shape[axis + 1]!;
  return found;
}

/** For each position in `shape` the position in a tensor whose dimensions have these steps. */
function positions(shape: number[], steps: number[], start = 0): Int32Array {
  const own = strides(shape);
  return Int32Array.from({ length: size(shape) }, (_, at) => shape.reduce((place, length, axis) => place + (Math.floor(at / own[axis]!) % length) * steps[axis]!, start));
}

/** For each position in `shape` the position in a tensor that is stretched to it. */
function stretched(from: number[], shape: number[]): Int32Array {
  const own = strides(from);
  const lead = shape.length - from.length;
  return positions(shape, shape.map((_, axis) => (axis < lead || from[axis - lead] === 1 ? 0 : own[axis - lead]!)));
}

/** A tensor or a number as a function of the position in `shape`. */
function reader(given: Operand, shape: number[]): (at: number) => number {
  if (typeof given !== "object") return () => +given;
  const { data } = given;
  if (String(given.shape) === String(shape)) return (at) => data[at]!;
  const places = stretched(given.shape, shape);
  return (at) => data[places[at]!]!;
}

const axisOf = (axis: number, shape: number[]): number => (axis < 0 ? axis + shape.length : axis);

const axesOf = (shape: number[]): number[] => shape.map((_, axis) => axis);

/** Each line of a tensor along some axes: where it begins, and the steps to its elements. */
function lines(shape: number[], dims?: Dims): { starts: Int32Array; offsets: Int32Array } {
  const given = [dims ?? []].flat();
  const axes = given.length && shape.length ? given.map((axis) => axisOf(axis, shape)) : axesOf(shape);
  const own = strides(shape);
  const kept = axesOf(shape).filter((axis) => !axes.includes(axis));
  const along = (some: number[]): Int32Array => positions(some.map((axis) => shape[axis]!), some.map((axis) => own[axis]!));
  return { starts: along(kept), offsets: along(axes) };
}

/** Sums in pairs lose less than sums in order. */
function total(values: Float64Array, begin = 0, end = values.length): number {
  if (end - begin <= 8) {
    let sum = 0;
    for (let at = begin; at < end; at++) sum += values[at]!;
    return sum;
  }
  const middle = (begin + end) >> 1;
  return total(values, begin, middle) + total(values, middle, end);
}

type Line = Float64Array;

const reduce = (combine: (line: Line) => number) => (kind: Kind, x: Tensor, dims?: Dims): Tensor => {
  const { starts, offsets } = lines(x.shape, dims);
  return fill(kind, (at) => combine(Float64Array.from(offsets, (offset) => x.data[starts[at]! + offset]!)));
};

const unary = (compute: (x: number) => number | boolean) => (kind: Kind, x: Tensor): Tensor => fill(kind, (at) => +compute(x.data[at]!));

const binary = <T>(compute: (x: number, y: number, setting?: T) => number | boolean) => (kind: Kind, x: Operand, y: Operand, setting?: T): Tensor => {
  const [left, right] = [reader(x, kind.shape), reader(y, kind.shape)];
  return fill(kind, (at) => +compute(left(at), right(at), setting));
};

/** The error function: a series whose terms are all positive. */
function erf(x: number): number {
  if (!(Math.abs(x) < 6)) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

function even(x: number): number {
  const low = Math.floor(x);
  const off = x - low;
  return off < 0.5 || (off === 0.5 && low % 2 === 0) ? low : low + 1;
}

/** Products of matrices; `batch` of them, or one. */
function matmul(kind: Kind, x: Tensor, y: Tensor): Tensor {
  const rows = x.shape.at(-2) ?? 1;
  const inner = x.shape.at(-1)!;
  const columns = y.shape.length === 1 ? 1 : y.shape.at(-1)!;
  const parts = new Float64Array(inner);
  return fill(kind, (at) => {
    const column = at % columns;
    const row = Math.floor(at / columns);
    const batch = Math.floor(row / rows);
    for (let k = 0; k < inner; k++) parts[k] = x.data[row * inner + k]! * y.data[(batch * inner + k) * columns + column]!;
    return total(parts);
  });
}

/** Each line along an axis by itself, as for a softmax. */
const along = (compute: (line: Line) => Line) => (kind: Kind, x: Tensor, dim: number): Tensor => {
  const { starts, offsets } = lines(x.shape, dim);
  const data = new Float64Array(x.data.length);
  for (const start of starts) {
    const line = compute(Float64Array.from(offsets, (offset) => x.data[start + offset]!));
    offsets.forEach((offset, at) => (data[start + offset] = line[at]!));
  }
  return make(kind, data);
};

function logSoftmax(line: Line): Line {
  const top = line.reduce((one, other) => Math.max(one, other), -Infinity);
  const rest = Math.log(total(line.map((x) => Math.exp(x - top))));
  return line.map((x) => x - top - rest);
}

function softmax(line: Line): Line {
  const top = line.reduce((one, other) => Math.max(one, other), -Infinity);
  const grown = line.map((x) => Math.exp(x - top));
  const sum = total(grown);
  return grown.map((x) => x / sum);
}

function running(line: Line): Line {
  let sum = 0;
  return line.map((x) => (sum += x));
}

/** The numbers of a tensor at these places. */
const picked = (kind: Kind, { data }: Tensor, places: ArrayLike<number>): Tensor => fill(kind, (at) => data[places[at]!]!);

const same = (kind: Kind, x: Tensor): Tensor => fill(kind, (at) => x.data[at]!);

const filled = (kind: Kind, value: Scalar): Tensor => fill(kind, () => +value);

/** A tensor that torch makes with arbitrary numbers is overwritten later. */
const zeros = (kind: Kind): Tensor => filled(kind, 0);

function permute(kind: Kind, x: Tensor, dims: number[]): Tensor {
  const own = strides(x.shape);
  return picked(kind, x, positions(kind.shape, dims.map((axis) => own[axisOf(axis, x.shape)]!)));
}

/** The places of a part of `shape` along an axis: as many as `count`, from the first on. */
function part(shape: number[], dim: number, first: number | null, step: number, count: number): Int32Array {
  const axis = axisOf(dim, shape);
  const [own, length] = [strides(shape), shape[axis]!];
  const from = first ?? 0;
  const begin = Math.min(Math.max(from < 0 ? from + length : from, 0), length);
  const inside = shape.map((one, at) => (at === axis ? count : one));
  return positions(inside, own.map((one, at) => (at === axis ? one * step : one)), begin * own[axis]!);
}

const slice = (kind: Kind, x: Tensor, dim = 0, start: number | null = 0, _end: number | null = null, step = 1): Tensor =>
  picked(kind, x, part(x.shape, dim, start, step, kind.shape[axisOf(dim, x.shape)]!));

const select = (kind: Kind, x: Tensor, dim: number, at: number): Tensor => picked(kind, x, part(x.shape, dim, at, 1, 1));

function flip(kind: Kind, x: Tensor, dims: number[]): Tensor {
  const [own, turned] = [strides(x.shape), dims.map((axis) => axisOf(axis, x.shape))];
  const start = turned.reduce((sum, axis) => sum + (x.shape[axis]! - 1) * own[axis]!, 0);
  return picked(kind, x, positions(kind.shape, own.map((one, axis) => (turned.includes(axis) ? -one : one)), start));
}

function cat(kind: Kind, tensors: Tensor[], dim = 0): Tensor {
  const axis = axisOf(dim, kind.shape);
  const own = strides(kind.shape);
  const data = new Float64Array(size(kind.shape));
  let begin = 0;
  for (const one of tensors.filter((each) => each.shape.length === kind.shape.length)) {
    positions(one.shape, own, begin * own[axis]!).forEach((place, at) => (data[place] = one.data[at]!));
    begin += one.shape[axis]!;
  }
  return make(kind, data);
}

function split(kinds: Kind[], x: Tensor, _sizes: unknown, dim = 0): Tensor[] {
  let begin = 0;
  return kinds.map((kind) => {
    const found = slice(kind, x, dim, begin);
    begin += kind.shape[axisOf(dim, x.shape)]!;
    return found;
  });
}

function index(list: Tensor, at: number, length: number): number {
  const found = list.data[at]!;
  const place = found < 0 ? found + length : found;
  if (!(place >= 0 && place < length)) throw new Error(`${found} is no position among ${length}`);
  return place;
}

/** For each element of `at`, its place in `x` when its index along an axis is that of the element. */
function places(x: Tensor, dim: number, at: Tensor): Int32Array {
  if (!x.shape.length) return new Int32Array(at.data.length);
  const axis = axisOf(dim, x.shape);
  const own = strides(x.shape);
  const others = positions(at.shape, own.map((one, each) => (each === axis ? 0 : one)));
  return others.map((place, each) => place + own[axis]! * index(at, each, x.shape[axis]!));
}

const scatter = (combine: (x: number, y: number) => number) => (kind: Kind, x: Tensor, dim: number, at: Tensor, source: Operand): Tensor => {
  const data = Float64Array.from(x.data);
  // A source may be larger than the index: what lies beyond is not read.
  const found = typeof source === "object" ? positions(at.shape, strides(source.shape)) : null;
  places(x, dim, at).forEach((place, each) => (data[place] = combine(data[place]!, found ? (source as Tensor).data[found[each]!]! : +(source as Scalar))));
  return make(kind, data);
};

/** Parts of a tensor by their numbers along an axis. */
function take(kind: Kind, x: Tensor, axis: number, at: Tensor): Tensor {
  const [width, count, length] = [size(x.shape.slice(axis + 1)), at.data.length, x.shape[axis] ?? 1];
  return fill(kind, (each) => {
    const place = index(at, Math.floor(each / width) % count, length);
    return x.data[(Math.floor(each / (width * count)) * length + place) * width + (each % width)]!;
  });
}

function indexPut(kind: Kind, x: Tensor, [at]: [Tensor], values: Tensor, accumulate = false): Tensor {
  const data = Float64Array.from(x.data);
  const rest = x.shape.slice(1);
  const width = size(rest);
  const read = reader(values, [...at.shape, ...rest]);
  for (let each = 0; each < at.data.length * width; each++) {
    const place = index(at, Math.floor(each / width), x.shape[0]!) * width + (each % width);
    data[place] = (accumulate ? data[place]! : 0) + read(each);
  }
  return make(kind, data);
}

/** Mean and variance of the numbers of each group; `of` says which one a position is in. */
function statistics(x: Tensor, of: (at: number) => number, groups: number): { means: Float64Array; variances: Float64Array; count: number } {
  const count = x.data.length / groups;
  const mean = (value: (x: number, group: number) => number): Float64Array => {
    const sums = new Float64Array(groups);
    x.data.forEach((one, at) => (sums[of(at)]! += value(one, of(at))));
    return sums.map((sum) => sum / count);
  };
  const means = mean((one) => one);
  return { means, variances: mean((one, group) => (one - means[group]!) ** 2), count };
}

/** A tensor whose groups have mean 0 and variance 1, times a weight and plus a bias, and what it was divided by. */
function normal([kind, ...stats]: Kind[], x: Tensor, of: (at: number) => number, { means, variances }: { means: Float64Array; variances: Float64Array }, weight: Tensor | null, bias: Tensor | null, channel: (at: number) => number, eps: number): Tensor[] {
  const inverses = variances.map((one) => 1 / Math.sqrt(one + eps));
  const made = fill(kind!, (at) => (x.data[at]! - means[of(at)]!) * inverses[of(at)]! * (weight?.data[channel(at)] ?? 1) + (bias?.data[channel(at)] ?? 0));
  return [made, fill(stats[0]!, (at) => means[at]!), fill(stats[1]!, (at) => inverses[at]!)];
}

function layerNorm(kinds: Kind[], x: Tensor, shape: number[], weight: Tensor | null, bias: Tensor | null, eps: number): Tensor[] {
  const width = size(shape);
  const of = (at: number): number => Math.floor(at / width);
  return normal(kinds, x, of, statistics(x, of, x.data.length / width), weight, bias, (at) => at % width, eps);
}

function groupNorm(kinds: Kind[], x: Tensor, weight: Tensor | null, bias: Tensor | null, batch: number, _channels: number, _space: number, groups: number, eps: number): Tensor[] {
  const width = x.data.length / (batch * groups);
  const of = (at: number): number => Math.floor(at / width);
  return normal(kinds, x, of, statistics(x, of, batch * groups), weight, bias, mapOf(x.shape), eps);
}

function batchNorm(kinds: Kind[], x: Tensor, weight: Tensor | null, bias: Tensor | null, mean: Tensor | null, variance: Tensor | null, training: boolean, momentum: number, eps: number): Tensor[] {
  const of = mapOf(x.shape);
  const own = statistics(x, of, x.shape[1]!);
  const used = training ? own : { means: mean!.data, variances: variance!.data };
  const moved = (kind: Kind, old: Tensor | null, now: (at: number) => number): Tensor => fill(kind, (at) => (training ? (1 - momentum) * old!.data[at]! + momentum * now(at) : old!.data[at]!));
  const found = normal(kinds, x, of, used, weight, bias, of, eps);
  const running = [moved.bind(null, kinds[3]!, mean, (at) => own.means[at]!), moved.bind(null, kinds[4]!, variance, (at) => (own.variances[at]! * own.count) / (own.count - 1))];
  return [...found, ...running.slice(0, kinds.length - 3).map((one) => one())];
}

function spread(line: Line, correction: number | null): number {
  const mean = total(line) / line.length;
  return total(line.map((x) => (x - mean) ** 2)) / Math.max(0, line.length - (correction ?? 1));
}

const top = (line: Line): number => line.reduce((best, x, at) => (x > line[best]! || (x !== x && line[best] === line[best]) ? at : best), 0);

const bottom = (line: Line): number => top(line.map((x) => -x));

/** The extreme numbers, or these and where they are. */
const extreme = (find: (line: Line) => number) => {
  const numbers = reduce((line) => line[find(line)]!);
  return (kind: Kind | [Kind, Kind], x: Tensor, dim: number | null = null): Tensor | Tensor[] =>
    Array.isArray(kind) ? [numbers(kind[0], x, dim), reduce(find)(kind[1], x, dim)] : numbers(kind, x, dim);
};

const divided = (x: number, y: number, mode?: string | null): number => (mode === "floor" ? Math.floor(x / y) : mode === "trunc" ? Math.trunc(x / y) : x / y);

/** As C and torch say it, also of 1 to a power that is no number. */
const power = (x: number, y: number): number => (x === 1 || (x === -1 && Math.abs(y) === Infinity) ? 1 : x ** y);

const PADDING = -1;
const BEYOND = -2; // the last window may reach further than the padding

/** One number for each of as many dimensions: torch gives a single one for all. */
const each = (given: number[], rank: number): number[] => (given.length === 1 ? new Array<number>(rank).fill(given[0]!) : given);

/** For each place that a kernel is laid on, and each place of the kernel, where it is in the input. */
function windows(input: number[], kernel: number[], output: number[], stride: number[], padding: number[], dilation: number[]): Int32Array {
  const [where, of] = [strides([...output, ...kernel]), strides(input)];
  const rank = input.length;
  const [steps, edges, spacing] = [stride, padding, dilation].map((one) => each(one, rank)) as [number[], number[], number[]];
  return Int32Array.from({ length: size(output) * size(kernel) }, (_, at) => {
    let place = 0;
    for (let axis = 0; axis < rank; axis++) {
      const [begin, step] = [0, rank].map((more) => Math.floor(at / where[axis + more]!) % [...output, ...kernel][axis + more]!) as [number, number];
      const here = begin * steps[axis]! - edges[axis]! + step * spacing[axis]!;
      if (here >= input[axis]! + edges[axis]!) return BEYOND;
      place = place < 0 || here < 0 || here >= input[axis]! ? PADDING : place + here * of[axis]!;
    }
    return place;
  });
}

/** Settings of a convolution as they stand in its arguments, from the stride on. */
type Geometry = [stride: number[], padding: number[], dilation: number[], transposed: boolean, beyond: number[], groups: number];

/** All products of a convolution: the places of an input, of a weight and of the output, which their product is added to. */
function products(x: number[], w: number[], y: number[], [stride, padding, dilation, transposed, , groups]: Geometry, visit: (x: number, w: number, y: number) => void): void {
  if (transposed) return products(y, w, x, [stride, padding, dilation, false, [], groups], (to, weight, from) => visit(from, weight, to));
  const [inside, width, space] = [x, w, y].map((shape) => size(shape.slice(2))) as [number, number, number];
  const seen = windows(x.slice(2), w.slice(2), y.slice(2), stride, padding, dilation);
  const [outputs, channels] = w as [number, number];
  for (let map = 0; map < y[0]! * outputs; map++) {
    const output = map % outputs;
    for (let channel = 0; channel < channels; channel++) {
      const from = (Math.floor(map / outputs) * x[1]! + Math.floor((output * groups) / outputs) * channels + channel) * inside;
      seen.forEach((place, at) => place >= 0 && visit(from + place, (output * channels + channel) * width + (at % width), map * space + Math.floor(at / width)));
    }
  }
}

/** The number of the map, along C, that a position in a tensor (N, C, ...) is in. */
function mapOf(shape: number[]): (at: number) => number {
  const inside = size(shape.slice(2));
  return (at) => Math.floor(at / inside) % shape[1]!;
}

function convolution(kind: Kind, x: Tensor, w: Tensor, bias: Tensor | null, ...geometry: Geometry): Tensor {
  const map = mapOf(kind.shape);
  const data = Float64Array.from({ length: size(kind.shape) }, (_, at) => bias?.data[map(at)] ?? 0);
  products(x.shape, w.shape, kind.shape, geometry, (from, weight, to) => (data[to]! += x.data[from]! * w.data[weight]!));
  return make(kind, data);
}

function convolutionBackward(kinds: (Kind | null)[], g: Tensor, x: Tensor, w: Tensor, _sizes: unknown, ...settings: [...Geometry, unknown]): (Tensor | null)[] {
  const [toX, toW, toBias] = kinds.map((kind) => new Float64Array(kind ? size(kind.shape) : 0)) as [Float64Array, Float64Array, Float64Array];
  const map = mapOf(g.shape);
  g.data.forEach((one, at) => (toBias[map(at)]! += one)); // to a place beyond the end nothing is written
  products(x.shape, w.shape, g.shape, settings.slice(0, 6) as unknown as Geometry, (from, weight, to) => {
    toX[from]! += g.data[to]! * w.data[weight]!;
    toW[weight]! += g.data[to]! * x.data[from]!;
  });
  return [toX, toW, toBias].map((data, at) => (kinds[at] ? make(kinds[at], data) : null));
}

/** The windows of a pooling: all maps of a tensor have the same ones. */
interface Pooling {
  space: number; // places of a map of the output
  inside: number; // and of the input
  window: (place: number) => Int32Array; // where its numbers are in the map
}

function pooling(input: number[], output: number[], kernel: number[], stride: number[], padding: number[], dilation: number[]): Pooling {
  const [from, to] = [input, output].map((shape) => shape.slice(-kernel.length)) as [number[], number[]];
  const seen = windows(from, kernel, to, stride.length ? stride : kernel, padding, dilation);
  const width = size(kernel);
  return { space: size(to), inside: size(from), window: (place) => seen.subarray(place * width, (place + 1) * width) };
}

/** As many windows as the output has places: they begin and end where these do. */
const adaptive = (rank: number) => (input: number[], output: number[]): Pooling => {
  const [from, to] = [input.slice(-rank), output.slice(-rank)];
  const [own, there] = [strides(from), strides(to)];
  const bound = (at: number, axis: number): number => (at * from[axis]!) / to[axis]!;
  const window = (place: number): Int32Array => {
    const at = to.map((length, axis) => Math.floor(place / there[axis]!) % length);
    const begins = at.map((one, axis) => Math.floor(bound(one, axis)));
    return positions(at.map((one, axis) => Math.ceil(bound(one + 1, axis)) - begins[axis]!), own, begins.reduce((sum, one, axis) => sum + one * own[axis]!, 0));
  };
  return { space: size(to), inside: size(from), window };
};

function largestOf([kind, places]: Kind[], x: Tensor, { space, inside, window }: Pooling): Tensor[] {
  const found = Int32Array.from({ length: size(kind!.shape) }, (_, at) => {
    const seen = window(at % space).filter((place) => place >= 0);
    return seen[top(Float64Array.from(seen, (place) => x.data[Math.floor(at / space) * inside + place]!))]!;
  });
  return [fill(kind!, (at) => x.data[Math.floor(at / space) * inside + found[at]!]!), fill(places!, (at) => found[at]!)];
}

const maxPool = (kinds: Kind[], x: Tensor, kernel: number[], stride: number[] = [], padding: number[] = [0], dilation: number[] = [1]): Tensor[] =>
  largestOf(kinds, x, pooling(x.shape, kinds[0]!.shape, kernel, stride, padding, dilation));

const adaptiveMax = (rank: number) => (kinds: Kind[], x: Tensor): Tensor[] => largestOf(kinds, x, adaptive(rank)(x.shape, kinds[0]!.shape));

/** The means of windows, or what each number gets of what the means got. */
function mean(kind: Kind, given: Tensor, { space, inside, window }: Pooling, back: boolean, whole = true, divisor: number | null = null): Tensor {
  const data = new Float64Array(size(kind.shape));
  const count = (back ? given.data.length : data.length);
  for (let to = 0; to < count; to++) {
    const own = window(to % space);
    const many = divisor ?? own.filter((place) => place >= 0 || (whole && place === PADDING)).length;
    for (const place of own) {
      const from = Math.floor(to / space) * inside + place;
      if (place >= 0) data[back ? from : to]! += given.data[back ? to : from]! / many;
    }
  }
  return make(kind, data);
}

const meanPool = (kind: Kind, x: Tensor, kernel: number[], stride: number[] = [], padding: number[] = [0], _ceil = false, whole = true, divisor: number | null = null): Tensor =>
  mean(kind, x, pooling(x.shape, kind.shape, kernel, stride, padding, [1]), false, whole, divisor);

const meanPoolBackward = (kind: Kind, g: Tensor, x: Tensor, kernel: number[], stride: number[], padding: number[], _ceil: boolean, whole: boolean, divisor: number | null): Tensor =>
  mean(kind, g, pooling(x.shape, g.shape, kernel, stride, padding, [1]), true, whole, divisor);

const adaptiveMean = (rank: number) => (kind: Kind, x: Tensor): Tensor => mean(kind, x, adaptive(rank)(x.shape, kind.shape), false);

const adaptiveMeanBackward = (rank: number) => (kind: Kind, g: Tensor, x: Tensor): Tensor => mean(kind, g, adaptive(rank)(x.shape, g.shape), true);

/** A tensor with more numbers before and after those of each dimension, or fewer: of the last one first. */
function padded(kind: Kind, x: Tensor, more: number[], value: Scalar = 0): Tensor {
  const [own, there, last] = [strides(x.shape), strides(kind.shape), x.shape.length - 1];
  return fill(kind, (at) => {
    let place = 0;
    for (let axis = 0; axis <= last; axis++) {
      const here = (Math.floor(at / there[axis]!) % kind.shape[axis]!) - (more[2 * (last - axis)] ?? 0);
      if (here < 0 || here >= x.shape[axis]!) return +value;
      place += here * own[axis]!;
    }
    return x.data[place]!;
  });
}

function clamp(kind: Kind, x: Tensor, low: Operand | null = null, high: Operand | null = null): Tensor {
  const [value, least, most] = [x, low ?? -Infinity, high ?? Infinity].map((one) => reader(one, kind.shape)) as [(at: number) => number, (at: number) => number, (at: number) => number];
  return fill(kind, (at) => Math.min(Math.max(value(at), least(at)), most(at)));
}

/** The table of kernels: by the names of aten's operators. Its names stand in the first line of kernels.js, where page.py reads them. */
export const OPS = {
  abs: unary(Math.abs), acos: unary(Math.acos), acosh: unary(Math.acosh), asin: unary(Math.asin),
  asinh: unary(Math.asinh), atan: unary(Math.atan), atanh: unary(Math.atanh), ceil: unary(Math.ceil),
  cos: unary(Math.cos), cosh: unary(Math.cosh), erf: unary(erf), exp: unary(Math.exp), exp2: unary((x) => 2 ** x),
  expm1: unary(Math.expm1), floor: unary(Math.floor), isinf: unary((x) => x === Infinity || x === -Infinity),
  isnan: unary((x) => x !== x), log: unary(Math.log), log10: unary(Math.log10), log1p: unary(Math.log1p),
  log2: unary(Math.log2), logical_not: unary((x) => x === 0), neg: unary((x) => -x), reciprocal: unary((x) => 1 / x),
  relu: unary((x) => (x <= 0 ? 0 : x)), round: unary(even), rsqrt: unary((x) => 1 / Math.sqrt(x)),
  sigmoid: unary((x) => 1 / (1 + Math.exp(-x))), sign: unary((x) => Math.sign(x) || 0), sin: unary(Math.sin), sinh: unary(Math.sinh),
  sqrt: unary(Math.sqrt), tan: unary(Math.tan), tanh: unary(Math.tanh), trunc: unary(Math.trunc),

  add: binary((x, y, alpha = 1) => x + alpha * y), sub: binary((x, y, alpha = 1) => x - alpha * y),
  mul: binary((x, y) => x * y), div: binary(divided), pow: binary(power),
  fmod: binary((x, y) => x % y), remainder: binary((x, y) => x - Math.floor(x / y) * y),
  maximum: binary((x, y) => Math.max(x, y)), minimum: binary((x, y) => Math.min(x, y)),
  eq: binary((x, y) => x === y), ne: binary((x, y) => x !== y), lt: binary((x, y) => x < y),
  le: binary((x, y) => x <= y), gt: binary((x, y) => x > y), ge: binary((x, y) => x >= y),
  logical_and: binary((x, y) => x !== 0 && y !== 0), logical_or: binary((x, y) => x !== 0 || y !== 0), logical_xor: binary((x, y) => (x === 0) !== (y === 0)),
  atan2: binary(Math.atan2), hypot: binary((x, y) => Math.hypot(x, y)),

  where: (kind: Kind, condition: Tensor, x: Operand, y: Operand) => {
    const [chosen, left, right] = [condition, x, y].map((one) => reader(one, kind.shape)) as [(at: number) => number, (at: number) => number, (at: number) => number];
    return fill(kind, (at) => (chosen(at) ? left(at) : right(at)));
  },
  clamp, hardtanh: (kind: Kind, x: Tensor, low = -1, high = 1) => clamp(kind, x, low, high),
  leaky_relu: (kind: Kind, x: Tensor, slope: number) => unary((v) => (v > 0 ? v : v * slope))(kind, x),
  elu: (kind: Kind, x: Tensor, alpha: number, scale: number, inner: number) => unary((v) => scale * (v > 0 ? v : alpha * Math.expm1(inner * v)))(kind, x),
  gelu: (kind: Kind, x: Tensor, way: string) =>
    unary((v) => 0.5 * v * (1 + (way === "tanh" ? Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)) : erf(v * Math.SQRT1_2))))(kind, x),

  sum: reduce(total), mean: reduce((line) => total(line) / line.length),
  amax: reduce((line) => line.reduce((x, y) => Math.max(x, y))), amin: reduce((line) => line.reduce((x, y) => Math.min(x, y))),
  prod: reduce((line) => line.reduce((x, y) => x * y, 1)), argmax: reduce(top),
  max: extreme(top), min: extreme(bottom), argmin: reduce(bottom), any: reduce((line) => +line.some((x) => x !== 0)),
  var: (kind: Kind, x: Tensor, dims: Dims, correction: number | null) => reduce((line) => spread(line, correction))(kind, x, dims),
  cumsum: along(running), _softmax: along(softmax), _log_softmax: along(logSoftmax), native_layer_norm: layerNorm,

  mm: matmul, bmm: matmul,
  addmm: (kind: Kind, bias: Tensor, x: Tensor, y: Tensor, beta = 1, alpha = 1) => {
    const [product, added] = [matmul({ ...kind, dtype: "float64" }, x, y), reader(bias, kind.shape)];
    return fill(kind, (at) => beta * added(at) + alpha * product.data[at]!);
  },
  convolution, convolution_backward: convolutionBackward,
  max_pool2d_with_indices: maxPool, max_pool3d_with_indices: maxPool,
  avg_pool2d: meanPool, avg_pool3d: meanPool,
  avg_pool2d_backward: meanPoolBackward, avg_pool3d_backward: meanPoolBackward,
  _adaptive_avg_pool2d: adaptiveMean(2), _adaptive_avg_pool3d: adaptiveMean(3),
  _adaptive_avg_pool2d_backward: adaptiveMeanBackward(2), _adaptive_avg_pool3d_backward: adaptiveMeanBackward(3),
  adaptive_max_pool2d: adaptiveMax(2), adaptive_max_pool3d: adaptiveMax(3),
  native_group_norm: groupNorm, native_batch_norm: batchNorm, _native_batch_norm_legit_functional: batchNorm,

  view: same, unsqueeze: same, squeeze: same, clone: same, alias: same, _to_copy: same, lift_fresh_copy: same,
  permute, slice, select, flip, cat, split_with_sizes: split,
  gather: (kind: Kind, x: Tensor, dim: number, at: Tensor) => picked(kind, x, places(x, dim, at)),
  repeat: (kind: Kind, x: Tensor) => {
    const lead = kind.shape.length - x.shape.length;
    const [own, there] = [strides(kind.shape), strides(x.shape)];
    return fill(kind, (each) => x.data[x.shape.reduce((place, length, axis) => place + ((Math.floor(each / own[axis + lead]!) % length) * there[axis]!), 0)]!);
  },
  constant_pad_nd: padded,
  expand: (kind: Kind, x: Tensor) => fill(kind, reader(x, kind.shape)),
  copy: (kind: Kind, _: Tensor, source: Tensor) => fill(kind, reader(source, kind.shape)),
  full: (kind: Kind, _: unknown, value: Scalar) => filled(kind, value), full_like: (kind: Kind, _: unknown, value: Scalar) => filled(kind, value),
  scalar_tensor: filled, empty: zeros, empty_permuted: zeros, empty_strided: zeros,
  slice_scatter: (kind: Kind, x: Tensor, source: Tensor, dim = 0, start: number | null = 0, _end: number | null = null, step = 1) => {
    const data = Float64Array.from(x.data);
    part(x.shape, dim, start, step, source.shape[axisOf(dim, x.shape)]!).forEach((place, at) => (data[place] = source.data[at]!));
    return make(kind, data);
  },
  scatter: scatter((_, x) => x), scatter_add: scatter((x, y) => x + y),
  embedding: (kind: Kind, table: Tensor, at: Tensor) => take(kind, table, 0, at),
  index: (kind: Kind, x: Tensor, list: (Tensor | null)[]) => take(kind, x, list.findIndex((one) => one), list.find((one) => one)!),
  index_put: indexPut,
  index_select: (kind: Kind, x: Tensor, dim: number, at: Tensor) => take(kind, x, axisOf(dim, x.shape), at),
} satisfies Record<string, Kernel>;

/**
 * Run a program.
 *
 * @param program as page.py writes it
 * @param inputs the tensors by name that take the place of the program's own; the others stay
 * @returns the tensors that leave it, by name, those of its steps, and the values of all nodes
 */
export function run(program: Program, inputs: Record<string, Tensor> = {}): { results: Record<string, Tensor>; steps: Record<string, Tensor>; values: (Tensor | (Tensor | null)[])[] } {
  const values: (Tensor | (Tensor | null)[])[] = program.given.map((given) => inputs[given.name] ?? tensor(given));
  const argument = (given: any): any => {
    if (Array.isArray(given)) return given.map(argument);
    if (given === null || typeof given !== "object") return given;
    return "v" in given ? values[given.v] : number(given.n);
  };
  for (const { op, args, kind, of } of program.nodes) {
    if (op === "constant") values.push(tensor(kind));
    else if (op === "getitem") values.push((values[of[0]] as Tensor[])[of[1]]!);
    else values.push((OPS as Record<string, Kernel>)[op]!(kind, ...args.map(argument)));
  }
  const named = (list: Named[]): Record<string, Tensor> => Object.fromEntries(list.map(({ name, v }) => [name, values[v] as Tensor]));
  return { results: named(program.results ?? []), steps: named(program.steps.flatMap(({ made }) => made)), values };
}
