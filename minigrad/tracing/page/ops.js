"use strict";
/* The ops, under the names of minigrad/ops: for each its formulas, and its rules for ONE number: of the output (`value`),
   and of the gradient of an input (`gradient`). A rule is written in an algebra `m`. With `numbers` it computes, with
   `terms` it makes the tree of what it would compute, which the page writes out. So what is explained is what is computed.

   A tensor is {shape, data}, data a flat Float64Array in C order. A rule sees a context c:

       c.m                     the algebra: add, sub, mul, div, neg, sum(n, k => ...), exp, ...
       c.x(i, index)           a number of input i, broadcast as NumPy does; c.has(i): is there one?
       c.out(index)            a number of the output, in gradient
       c.dout(index)           a number of the output's gradient, in gradient
       c.once(name, shape, rule)   an array on the way, computed once; terms write it out where it is used
       c.aside(name, shape, rule)  the same, but terms leave it as a name with a number, and write it out below
       c.read(name)            an aside again
       c.keep(name, make)      what depends on shapes and options only, made once
       c.shapes, c.shape       the shapes of the inputs and of the output; c.options

   A gradient may have the broadcast shape (`gradientShape`): interpreter.js sums it back, in one place. */

const product = shape => shape.reduce((n, length) => n * length, 1);
const tensor = (shape, data) => ({shape, data: data || new Float64Array(product(shape))});

/** The index of a place in C order. */
function unravel(shape, place) {
  const index = new Array(shape.length);
  for (let d = shape.length - 1; d >= 0; d--) {
    index[d] = place % shape[d];
    place = (place - index[d]) / shape[d];
  }
  return index;
}

/** The place of an index in C order. Axes too many in front are left out, and an axis of length 1 is at 0: broadcasting. */
function ravel(shape, index) {
  const extra = index.length - shape.length;
  let place = 0;
  for (let d = 0; d < shape.length; d++) {
    place = place * shape[d] + (shape[d] === 1 || d + extra < 0 ? 0 : index[d + extra]);
  }
  return place;
}

function broadcast(...shapes) {
  const length = Math.max(0, ...shapes.map(shape => shape.length));
  return Array.from({length}, (_, d) => {
    const lengths = shapes.map(shape => shape[shape.length - length + d] ?? 1).filter(n => n !== 1);
    if (lengths.some(n => n !== lengths[0])) {
      throw new Error(`shapes ${shapes.map(shape => `(${shape})`).join(" and ")} do not broadcast`);
    }
    return lengths[0] ?? 1;
  });
}

/* ------------------------------------------------------------------------------------------------ the two algebras */

const SQRT_2 = Math.SQRT2, SQRT_PI = Math.sqrt(Math.PI), SQRT_2_OVER_PI = Math.sqrt(2 / Math.PI);

function erf(x) {
  if (Math.abs(x) >= 2) return Math.sign(x) * (1 - erfc(Math.abs(x)));
  let term = x, total = x; // 2/sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all of one sign
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) {
    term *= 2 * x * x / (2 * n + 1);
    total += term;
  }
  return 2 / SQRT_PI * Math.exp(-x * x) * total;
}

function erfc(x) {
  if (!(x >= 2)) return 1 - erf(x);
  let below = x; // a continued fraction, from its end
  for (let n = 120; n >= 1; n--) below = x + n / 2 / below;
  return x > 30 ? 0 : Math.exp(-x * x) / SQRT_PI / below;
}

const numbers = {
  number: x => x,
  valueOf: x => x,
  source: (t, index) => t.data[ravel(t.shape, index)],
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  neg: a => -a,
  pow: (a, b) => a ** b,
  exp: Math.exp,
  log: Math.log,
  sqrt: Math.sqrt,
  call: (name, f, ...x) => f(...x),
  sum(n, rule) {
    let total = 0;
    for (let k = 0; k < n; k++) total += rule(k);
    return total;
  },
  prod(n, rule) {
    let total = 1;
    for (let k = 0; k < n; k++) total *= rule(k);
    return total;
  },
  max(n, rule) {
    let largest = -Infinity;
    for (let k = 0; k < n; k++) largest = Math.max(largest, rule(k));
    return largest;
  },
};

/** Each term: what it `is`, its parts and its number, computed by `numbers`. */
const term = (is, parts, value, more) => ({is, parts, value, ...more});
const each = (n, rule) => Array.from({length: n}, (_, k) => rule(k));
const terms = {
  number: x => term("number", [], x),
  valueOf: a => a.value,
  source: (t, index) => term("source", [], numbers.source(t, index), {of: t, index: within(t.shape, index)}),
  call: (name, f, ...x) => term("call", x, f(...x.map(terms.valueOf)), {name}),
  sum: (n, rule) => over("sum", each(n, rule)),
  prod: (n, rule) => over("prod", each(n, rule)),
  max: (n, rule) => over("max", each(n, rule)),
};
for (const is of ["add", "sub", "mul", "div", "neg", "pow", "exp", "log", "sqrt"]) {
  terms[is] = (...parts) => term(is, parts, numbers[is](...parts.map(terms.valueOf)));
}
const over = (is, parts) => term(is, parts, numbers[is](parts.length, k => parts[k].value));

/** The index of the number that stands at a broadcast index. */
const within = (shape, index) => unravel(shape, ravel(shape, index));

/* ------------------------------------------------------------------------------------------------ families of ops */

/** Ops of single elements: value(m, ...inputs, c, index), gradients[i](m, dout, ...inputs, c, index). */
function elementwise(op) {
  const inputs = (c, index) => c.shapes.map((_, i) => c.x(i, index));
  return {
    names: op.gradients.length === 1 ? ["x"] : ["a", "b"],
    shape: c => broadcast(...c.shapes),
    gradientShape: c => c.shape,
    ...op,
    value: (c, index) => op.value(c.m, ...inputs(c, index), c, index),
    gradient: (c, i, index) => op.gradients[i](c.m, c.dout(index), ...inputs(c, index), c, index),
  };
}

/** A function of one number by its name: f(x), and the factor of dout, from x and out. */
function unary(name, f, formula, backward, factor) {
  return elementwise({
    formula: `out = ${formula}`, backward: [`dx = ${backward}`],
    value: (m, x) => name in numbers ? m[name](x) : m.call(name, f, x),
    gradients: [(m, dout, x, c, index) => factor(m, dout, x, () => c.out(index))],
  });
}

/** f(x) with derivative f'(x), both plain functions: terms show f'(x) as one number. */
const withOptions = (name, defaults, formula, slope, f, derivative) => elementwise({
  formula: `out = ${formula}`, backward: [`dx = dout * ${slope}`],
  value: (m, x, c) => m.call(name, x => f(x, {...defaults, ...c.options}), x),
  gradients: [(m, dout, x, c) => m.mul(dout, m.call("slope", x => derivative(x, {...defaults, ...c.options}), x))],
});
/** Dropout, by the factor of each element. */
const dropping = factor => elementwise({
  formula: "out = x * keep / (1 - p)", backward: ["dx = dout * keep / (1 - p)"],
  value: (m, x, c, index) => m.mul(x, m.number(factor(c, index))),
  gradients: [(m, dout, x, c, index) => m.mul(dout, m.number(factor(c, index)))],
});
const plainUnary = (name, f, derivative, slope) => unary(
  name, f, `${name}(x)`, `dout * ${slope}`, (m, dout, x) => m.mul(dout, m.call(`${name}'`, derivative, x)),
);

/** Ops that move: each number of the output is a number of an input, from(c, index) = [input, its place], or null for 0. */
function moves(op) {
  /** For each input, by place: the places in the output that it went to. */
  const uses = c => c.keep("uses", () => {
    const found = c.shapes.map(() => new Map());
    for (let place = 0; place < product(c.shape); place++) {
      const source = op.from(c, unravel(c.shape, place), place);
      if (!source) continue;
      const map = found[source[0]];
      if (!map.has(source[1])) map.set(source[1], []);
      map.get(source[1]).push(place);
    }
    return found;
  });
  return {
    names: ["x"],
    ...op,
    value(c, index) {
      const source = op.from(c, index, ravel(c.shape, index));
      return source ? c.x(source[0], unravel(c.shapes[source[0]], source[1])) : c.m.number(0);
    },
    gradient(c, i, index) {
      const places = uses(c)[i].get(ravel(c.shapes[i], index)) || [];
      if (places.length === 1) return c.dout(unravel(c.shape, places[0]));
      return c.m.sum(places.length, k => c.dout(unravel(c.shape, places[k])));
    },
  };
}

/** Ops that add: each number of x is added to the number of the output at the place to(c, index, place). There the second
    input is before, if there is one; else what nothing is added to is c.options.value, or 0. It is the transpose of an op
    that moves. */
const adds = op => ({
  names: ["x"],
  gradientShape: (c, i = 0) => c.shapes[i],
  ...op,
  value(c, index) {
    const arriving = c.keep("arriving", () => {
      const found = new Map(), shape = this.gradientShape(c);
      for (let place = 0; place < product(shape); place++) {
        const from = unravel(shape, place), to = op.to(c, from, place);
        if (!found.has(to)) found.set(to, []);
        found.get(to).push(from);
      }
      return found;
    });
    const from = arriving.get(ravel(c.shape, index)), before = c.shapes.length > 1 ? c.x(1, index) : null;
    if (!from) return before ?? c.m.number(Number(c.options.value ?? 0));
    const added = from.length === 1 ? c.x(0, from[0]) : c.m.sum(from.length, k => c.x(0, from[k]));
    return before ? c.m.add(before, added) : added;
  },
  gradient(c, i, index) {
    if (i === 1) return c.dout(index);
    return c.dout(unravel(c.shape, op.to(c, index, ravel(this.gradientShape(c), index))));
  },
});

const positive = (axis, length) => axis < 0 ? axis + length : axis;

/** A reduction's way between the input's index and the output's. */
function reduction(c) {
  const {axis, keepdims} = c.options, shape = c.shapes[0];
  return c.keep("reduction", () => {
    const all = shape.map((_, d) => d);
    const axes = new Set(axis == null ? all : [axis].flat().map(a => positive(a, shape.length)));
    const lengths = all.filter(d => axes.has(d)).map(d => shape[d]);
    return {
      n: product(lengths),
      shape: keepdims ? shape.map((n, d) => axes.has(d) ? 1 : n) : shape.filter((_, d) => !axes.has(d)),
      outOf: index => keepdims ? index.map((i, d) => axes.has(d) ? 0 : i) : index.filter((_, d) => !axes.has(d)),
      into(index, k) { // the k-th of those that were reduced to out[index]
        const inner = unravel(lengths, k);
        let next = 0, outer = 0;
        return all.map(d => {
          if (axes.has(d)) { if (keepdims) outer++; return inner[next++]; }
          return index[outer++];
        });
      },
    };
  });
}

const reduce = op => ({
  names: ["x"],
  shape: c => reduction(c).shape,
  ...op,
  value: (c, index) => op.value(c, k => c.x(0, reduction(c).into(index, k)), reduction(c).n),
  gradient: (c, i, index) => op.gradient(c, index, reduction(c).outOf(index), reduction(c).n),
});

/** loss(d) with derivative slope(d) for d = x - t, both plain functions: the mean, the sum, or each. */
const differenceLoss = (name, defaults, formula, slopeFormula, loss, slope) => {
  const full = c => broadcast(...c.shapes), reductionOf = c => c.options.reduction ?? "mean";
  const of = (c, f, name, index) => c.m.call(name, d => f(d, {...defaults, ...c.options}), c.m.sub(c.x(0, index), c.x(1, index)));
  return {
    names: ["x", "t"],
    formula: `out = mean ${formula},  d = x - t`,
    backward: [`dx = dout / n * ${slopeFormula}`, `dt = - dout / n * ${slopeFormula}`],
    shape: c => reductionOf(c) === "none" ? full(c) : [],
    gradientShape: full,
    value(c, index) {
      if (reductionOf(c) === "none") return of(c, loss, name, index);
      const n = product(full(c)), total = c.m.sum(n, k => of(c, loss, name, unravel(full(c), k)));
      return reductionOf(c) === "sum" ? total : c.m.div(total, c.m.number(n));
    },
    gradient(c, slot, index) {
      const m = c.m, dout = c.dout(reductionOf(c) === "none" ? index : []);
      const share = reductionOf(c) === "mean" ? m.div(dout, m.number(product(full(c)))) : dout;
      return m.mul(slot === 0 ? share : m.neg(share), of(c, slope, "slope", index));
    },
  };
};

const along = (index, dim, k) => { const moved = index.slice(); moved[dim] = k; return moved; };
const kept = (shape, dim) => along(shape, dim, 1);

/** Ops along one axis: what a row's rule needs to walk along it. */
const dimOf = c => positive(c.options.dim ?? -1, c.shapes[0].length);
const row = c => ({dim: dimOf(c), n: c.shapes[0][dimOf(c)], at: (index, k) => along(index, dimOf(c), k)});

/** e^(x - largest) of a row, and their sum. */
function softmaxParts(c) {
  const {dim, n, at} = row(c), m = c.m;
  const largest = c.aside("largest", kept(c.shapes[0], dim), (c, i) => c.m.max(n, k => c.x(0, at(i, k))));
  const power = i => m.exp(m.sub(c.x(0, i), largest(at(i, 0))));
  const total = c.once("total", kept(c.shapes[0], dim), (c, i) => {
    const parts = softmaxParts(c);
    return c.m.sum(n, k => parts.power(at(i, k)));
  });
  return {power, total: i => total(at(i, 0)), largest: i => largest(at(i, 0))};
}

/* ------------------------------------------------------------------------------------------------ indexing as NumPy's */

const flatten = (nested, found = []) => {
  if (!Array.isArray(nested)) found.push(nested);
  else nested.forEach(part => flatten(part, found));
  return found;
};
const shapeOf = nested => Array.isArray(nested) ? [nested.length, ...(nested.length ? shapeOf(nested[0]) : [])] : [];

function slicePositions([start, stop, step], n) {
  step = step ?? 1;
  const clip = (i, low, high) => Math.min(Math.max(i < 0 ? i + n : i, low), high);
  const first = start == null ? (step > 0 ? 0 : n - 1) : step > 0 ? clip(start, 0, n) : clip(start, -1, n - 1);
  const end = stop == null ? (step > 0 ? n : -1) : step > 0 ? clip(stop, 0, n) : clip(stop, -1, n - 1);
  const found = [];
  for (let i = first; step > 0 ? i < end : i > end; i += step) found.push(i);
  return found;
}

/** What x[parts] takes of an x of this shape: {shape, places}. Integers beside arrays are basic, as in the engine. */
function indexed(shape, parts) {
  const isArray = part => Array.isArray(part);
  const arrays = parts.map(part => isArray(part) ? {shape: shapeOf(part), data: flatten(part)} : null);
  const isMask = array => array && array.data.length > 0 && typeof array.data[0] === "boolean";
  const takes = (part, i) => part === null || part === "..." ? 0 : isMask(arrays[i]) ? arrays[i].shape.length : 1;
  const used = parts.reduce((n, part, i) => n + takes(part, i), 0);
  const free = shape.length - used;
  if (free < 0 || parts.some(part => typeof part === "boolean")) throw new Error("an index that is not known here");

  const axes = []; // of the output, but for arrays: {positions, axis} or {} for a new one
  const picks = []; // {axis, shape, data} of arrays
  let axis = 0, firstPick = -1, lastPart = "", isSplit = false;
  const whole = () => { axes.push({axis, positions: slicePositions([null, null, null], shape[axis])}); axis++; };
  const fixed = [];
  const expanded = parts.includes("...") ? parts : [...parts, "..."];
  expanded.forEach((part, i) => {
    const array = arrays[i];
    if (array) {
      if (firstPick < 0) firstPick = axes.length;
      else if (lastPart !== "array") isSplit = true;
      if (isMask(array)) {
        const where = array.data.flatMap((isTrue, place) => isTrue ? [unravel(array.shape, place)] : []);
        array.shape.forEach((_, d) => picks.push({axis: axis++, shape: [where.length], data: where.map(w => w[d])}));
      } else picks.push({axis: axis++, ...array});
      lastPart = "array";
      return;
    }
    if (part !== "..." || free > 0) lastPart = "basic";
    if (part === "...") for (let n = 0; n < free; n++) whole();
    else if (part === null) axes.push({});
    else if (typeof part === "number") fixed.push([axis, positive(part, shape[axis++])]);
    else { axes.push({axis, positions: slicePositions(part.slice, shape[axis])}); axis++; }
  });
  const picked = picks.length ? broadcast(...picks.map(pick => pick.shape)) : [];
  const front = picks.length ? (isSplit ? 0 : firstPick) : 0;
  const lengths = axes.map(a => a.positions ? a.positions.length : 1);
  const out = [...lengths.slice(0, front), ...picked, ...lengths.slice(front)];
  const places = each(product(out), place => {
    const index = unravel(out, place), source = new Array(shape.length);
    const of = index.slice(front, front + picked.length);
    const others = [...index.slice(0, front), ...index.slice(front + picked.length)];
    axes.forEach((a, d) => { if (a.positions) source[a.axis] = a.positions[others[d]]; });
    fixed.forEach(([a, i]) => { source[a] = i; });
    picks.forEach(pick => { source[pick.axis] = positive(pick.data[ravel(pick.shape, of)], shape[pick.axis]); });
    return ravel(shape, source.map((i, d) => shape[d] === 1 ? 0 : i));
  });
  return {shape: out, places};
}

/** Where the element [..., window, j] of sliding windows stands in what they slide over. */
const inWindow = (c, index) => [...index.slice(0, -2), index[index.length - 2] * c.options.step + last(index)];

/** An option that is an array, such as a condition or ids; and what stands in it, broadcast. */
const option = (c, name) => c.keep(name, () => tensor(shapeOf(c.options[name]), flatten(c.options[name])));
const optionAt = (c, name, index) => { const {shape, data} = option(c, name); return data[ravel(shape, index)]; };
const indexOf = (c, shape) => c.keep("index", () => indexed(shape, c.options.index));

/* ------------------------------------------------------------------------------------------------ masks of dropout */

const ROTATIONS = [[10, 26], [11, 21], [13, 27], [23, 5], [6, 20], [17, 11], [25, 10], [18, 20]];
const rotated = (word, count) => word << count | word >>> 32 - count;

/** Threefry-4x32 with 13 rounds: four words of 32 bits, made of two of a counter and two of a key. */
function threefry(counter, key) {
  const keys = [...key, 0, 0, key[0] ^ key[1] ^ 0x1BD11BDA];
  let x = [...counter, 0, 0].map((word, i) => word + keys[i] | 0);
  for (let n = 0; n < 13; n++) {
    [0, 2].forEach((i, side) => {
      const j = n % 2 === 0 ? i + 1 : 3 - i;
      x[i] = x[i] + x[j] | 0;
      x[j] = rotated(x[j], ROTATIONS[n % 8][side]) ^ x[i];
    });
    const times = (n + 1) / 4;
    if (n % 4 === 3) x = x.map((word, i) => word + keys[(times + i) % 5] + (i === 3 ? times : 0) | 0);
  }
  return x;
}

/** 0 or 1 / (1 - p), the factor of the element at a place, as minigrad/fast/kernels/dropout.py draws it of the step's key. */
function factorAt(c, p, place) {
  const [bits, first] = c.options.key.map(BigInt), position = Number(first) + place;
  const within = position % 128, slot = Math.floor(within / 16), counter = 16 * Math.floor(position / 128) + within % 16;
  const words = number => [0n, 32n].map(shift => Number(BigInt.asUintN(32, number >> shift)));
  const word = threefry(words(BigInt(counter)), words(bits))[slot >> 1];
  const isDropped = (slot % 2 ? rotated(word, 16) : word) >>> 0 < Math.round(p * 2 ** 32);
  return isDropped || p === 1 ? 0 : 1 / (1 - p);
}

const factor = (c, index) => c.keep(`factor ${index}`, () => factorAt(c, c.options.p, ravel(c.shape, index)));

/** That of a weight of attention, (..., queries, keys): 16 queries by 8 keys lie together, key by key. */
function weightsFactor(c, shape, p, index) {
  const [queries, keys] = shape.slice(-2), [i, j] = index.slice(-2), head = ravel(shape.slice(0, -2), index.slice(0, -2));
  const block = (head * Math.ceil(queries / 16) + Math.floor(i / 16)) * Math.ceil(keys / 8) + Math.floor(j / 8);
  return c.keep(`factor ${index}`, () => factorAt(c, p, 128 * block + 16 * (j % 8) + i % 16));
}

/* ------------------------------------------------------------------------------------------------ activations */

const sigmoid = x => 1 / (1 + Math.exp(-x));
const hardsigmoid = x => x <= -3 ? 0 : x >= 3 ? 1 : (x + 3) / 6;
const softplus = x => larger(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));
const normalBelow = {
  none: x => (1 + erf(x / SQRT_2)) / 2,
  tanh: x => (1 + Math.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x ** 3))) / 2,
};
const normalDensity = {
  none: x => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI),
  tanh: x => (1 - (2 * normalBelow.tanh(x) - 1) ** 2) / 2 * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x),
};
const gelu = (m, x, kind) => m.mul(x, m.call("P", normalBelow[kind], x));
const geluSlope = (m, x, kind) => m.add(m.call("P", normalBelow[kind], x), m.mul(x, m.call("P'", normalDensity[kind], x)));
const approximation = c => c.options.approximate ?? "none";

/* ------------------------------------------------------------------------------------------------ matrix products */

/** sum over k of left(k) * right(k), in terms and in numbers */
const dot = (m, n, left, right) => m.sum(n, k => m.mul(left(k), right(k)));
const last = index => index[index.length - 1];
const lead = index => index.slice(0, -1);
const rowsOf = shape => ({n: product(lead(shape)), at: (r, i) => [...unravel(lead(shape), r), i]});

const linear = {
  names: ["x", "W", "b"],
  formula: "out_to = sum_i x_ti W_oi + b_o",
  backward: ["dx_ti = sum_o dout_to W_oi", "dW_oi = sum_t dout_to x_ti", "db_o = sum_t dout_to"],
  shape: c => [...lead(c.shapes[0]), c.shapes[1][0]],
  value(c, index) {
    const o = last(index), m = c.m;
    const sum = dot(m, c.shapes[1][1], i => c.x(0, [...lead(index), i]), i => c.x(1, [o, i]));
    return c.has(2) ? m.add(sum, c.x(2, [o])) : sum;
  },
  gradient(c, i, index) {
    const m = c.m, rows = rowsOf(c.shapes[0]), outputs = c.shapes[1][0];
    if (i === 0) return dot(m, outputs, o => c.dout([...lead(index), o]), o => c.x(1, [o, last(index)]));
    const dout = r => c.dout(rows.at(r, index[0]));
    return i === 1 ? dot(m, rows.n, dout, r => c.x(0, rows.at(r, index[1]))) : m.sum(rows.n, dout);
  },
};

/* ------------------------------------------------------------------------------------------------ attention */

/** Rotary positions: a pair of features, as a vector, rotated by the cosine and sine of its token; or back. */
function turned(c, read, rotation, [h, t, d], isBack) {
  const m = c.m, isOdd = d % 2 === 1, other = isOdd ? d - 1 : d + 1, pair = d - d % 2;
  const straight = m.mul(read(c, h, t, d), rotation(c, t, pair));
  const across = m.mul(read(c, h, t, other), rotation(c, t, pair + 1));
  return isOdd === isBack ? m.sub(straight, across) : m.add(straight, across);
}

/** The rules of attention, given how to read q, k, v (each (..., time, feature)), mask, rotation and dout. `head`: leading
    axes. With a rotation, q and k are turned first, and their gradients back. */
function attention(c, {heads, queries, keys, size, values, scale, isCausal, dropout, mask, rotation, dout, v, ...given}) {
  const seen = i => isCausal ? Math.min(last(i.slice(0, -1)) + 1, keys) : keys; // of the query i[..., query, key]
  const square = [...heads, queries, keys];
  const split = index => [index.slice(0, heads.length), index[heads.length], index[heads.length + 1]];
  const turn = (name, length) => {
    if (!rotation) return given[name];
    c.aside(`${name} turned`, [...heads, length, size],
      (c, index) => turned(c, given[name], rotation, split(index), false));
    return (c, h, t, d) => c.read(`${name} turned`)([...h, t, d]);
  };
  const turnBack = (name, length, gradient) => {
    if (!rotation) return (h, t, d) => gradient(c, h, t, d);
    c.aside(`${name} turned`, [...heads, length, size], (c, index) => gradient(c, ...split(index)));
    return (h, t, d) => turned(c, (c, h, t, d) => c.read(`${name} turned`)([...h, t, d]), rotation, [h, t, d], true);
  };
  const drop = (c, x, index) => dropout ? c.m.mul(x, c.m.number(weightsFactor(c, square, dropout, index))) : x;
  const q = turn("q", queries), k = turn("k", keys);
  const scores = c.aside("scores", square, (c, index) => {
    const [h, i, j] = split(index), m = c.m;
    if (isCausal && j > i) return m.number(-Infinity);
    const score = m.mul(dot(m, size, d => q(c, h, i, d), d => k(c, h, j, d)), m.number(scale));
    return mask ? m.add(score, mask(c, index)) : score;
  });
  const weights = c.aside("weights", square, (c, index) => {
    const m = c.m, n = seen(index), read = c.read("scores"), at = j => [...lead(index), j];
    const largest = numbers.max(n, j => m.valueOf(read(at(j))));
    if (last(index) >= n || largest === -Infinity) return m.number(0);
    const power = j => m.exp(m.sub(read(at(j)), m.number(largest)));
    return m.div(power(last(index)), m.sum(n, power));
  });
  const dweights = () => c.aside("dweights", square, (c, index) => {
    const [h, i, j] = split(index);
    return drop(c, dot(c.m, values, d => dout(c, h, i, d), d => v(c, h, j, d)), index);
  });
  const dscores = () => {
    dweights();
    return c.aside("dscores", square, (c, index) => {
      const m = c.m, p = c.read("weights"), dp = c.read("dweights"), at = j => [...lead(index), j];
      if (last(index) >= seen(index)) return m.number(0);
      return m.mul(p(index), m.sub(dp(index), dot(m, seen(index), j => dp(at(j)), j => p(at(j)))));
    });
  };
  const m = c.m, kept = index => drop(c, weights(index), index);
  const by = (c, n, pair, read) => c.m.mul(dot(c.m, n, t => c.read("dscores")(pair(t)), read), c.m.number(scale));
  return {
    out: (h, i, d) => dot(m, isCausal ? Math.min(i + 1, keys) : keys, j => kept([...h, i, j]), j => v(c, h, j, d)),
    dq(h, i, d) {
      dscores();
      return turnBack("dq", queries, (c, h, i, d) => by(c, keys, j => [...h, i, j], j => k(c, h, j, d)))(h, i, d);
    },
    dk(h, j, d) {
      dscores();
      return turnBack("dk", keys, (c, h, j, d) => by(c, queries, i => [...h, i, j], i => q(c, h, i, d)))(h, j, d);
    },
    dv: (h, j, d) => dot(m, queries, i => kept([...h, i, j]), i => dout(c, h, i, d)),
  };
}

function scaledDotProduct(c) {
  const [q, k, v] = c.shapes, at = (i, h, t, d) => [...h, t, d];
  return attention(c, {
    heads: q.slice(0, -2), queries: q[q.length - 2], keys: k[k.length - 2], size: last(q), values: last(v),
    scale: c.options.scale ?? 1 / Math.sqrt(Math.max(last(q), 1)), isCausal: c.options.is_causal ?? false,
    q: (c, h, t, d) => c.x(0, at(0, h, t, d)), k: (c, h, t, d) => c.x(1, at(1, h, t, d)),
    v: (c, h, t, d) => c.x(2, at(2, h, t, d)), mask: c.has(3) ? (c, index) => c.x(3, index) : null,
    rotation: c.has(4) ? (c, t, d) => c.x(4, [t, d]) : null, dropout: c.options.dropout_p,
    dout: (c, h, t, d) => c.dout([...h, t, d]),
  });
}

function packed(c) {
  const [batch, time, triple] = c.shapes[0], width = triple / 3, heads = c.options.num_heads, size = width / heads;
  const read = part => (c, [b, h], t, d) => c.x(0, [b, t, part * width + h * size + d]);
  return {size, width, ...attention(c, {
    heads: [batch, heads], queries: time, keys: time, size, values: size, scale: 1 / Math.sqrt(Math.max(size, 1)),
    isCausal: c.options.is_causal ?? false, q: read(0), k: read(1), v: read(2), mask: null,
    rotation: c.has(1) ? (c, t, d) => c.x(1, [t, d]) : null, dropout: c.options.dropout_p,
    dout: (c, [b, h], t, d) => c.dout([b, t, h * size + d]),
  })};
}

/* ------------------------------------------------------------------------------------------------ rows: norm and loss */

const byRow = c => ({
  n: last(c.shapes[0]), rows: kept(c.shapes[0], c.shapes[0].length - 1), at: (i, k) => [...lead(i), k],
});

function normalised(c) {
  const {n, rows, at} = byRow(c);
  c.aside("mean", rows, (c, i) => c.m.div(c.m.sum(n, k => c.x(0, at(i, k))), c.m.number(n)));
  c.aside("rstd", rows, (c, i) => {
    const m = c.m, mean = c.read("mean")(i);
    const variance = m.div(m.sum(n, k => m.pow(m.sub(c.x(0, at(i, k)), mean), m.number(2))), m.number(n));
    return m.div(m.number(1), m.sqrt(m.add(variance, m.number(c.options.eps ?? 1e-5))));
  });
  const hat = (c, i) => c.m.mul(c.m.sub(c.x(0, i), c.read("mean")(at(i, 0))), c.read("rstd")(at(i, 0)));
  return {n, rows, at, hat};
}

function rootMeanSquare(c) {
  const {n, rows, at} = byRow(c);
  c.aside("rrms", rows, (c, i) => {
    const m = c.m, mean = m.div(m.sum(n, k => m.pow(c.x(0, at(i, k)), m.number(2))), m.number(n));
    return m.div(m.number(1), m.sqrt(m.add(mean, m.number(c.options.eps ?? 1e-5))));
  });
  return {n, rows, at, hat: (c, i) => c.m.mul(c.x(0, i), c.read("rrms")(at(i, 0)))};
}

/** max(|x|, eps) of the row that an index is in. */
function lengthOf(c) {
  const {dim, n, at} = row(c), eps = Number(c.options.eps ?? 1e-12);
  const length = c.once("max(n, eps)", kept(c.shape, dim), (c, i) => c.m.max(2, k => k ? c.m.number(eps)
    : c.m.sqrt(dot(c.m, n, k => c.x(0, at(i, k)), k => c.x(0, at(i, k))))));
  return {eps, length: index => length(at(index, 0))};
}

/** Rows of classes, and the target of each. */
function withTargets(c) {
  const [rows] = c.shapes[0], {targets, ignore_index: ignored = -100, reduction = "mean"} = c.options;
  const counts = r => targets[r] !== ignored;
  return {rows, targets, counts, reduction, counted: targets.filter((_, r) => counts(r)).length};
}

/** log p of the row r and the class k, for p = softmax(input 0). */
function logOfSoftmax(c) {
  const [rows, classes] = c.shapes[0];
  c.aside("largest", [rows], (c, [r]) => c.m.max(classes, k => c.x(0, [r, k])));
  c.aside("logsum", [rows], (c, [r]) => {
    const m = c.m, largest = c.read("largest")([r]);
    return m.add(largest, m.log(m.sum(classes, k => m.exp(m.sub(c.x(0, [r, k]), largest)))));
  });
  return (c, r, k) => c.m.sub(c.x(0, [r, k]), c.read("logsum")([r]));
}

/** Of each row, the softmax p of the logits; and the wanted distribution. */
function crossEntropy(c) {
  const [, classes] = c.shapes[0], {label_smoothing: smoothing = 0} = c.options;
  const found = withTargets(c), {targets, counts} = found;
  return {
    ...found, classes, smoothing, logP: logOfSoftmax(c),
    wanted: (r, k) => (targets[r] === k ? 1 - smoothing : 0) + smoothing / classes,
    loss(c, r) {
      const m = c.m;
      if (!counts(r)) return m.number(0);
      const hit = this.logP(c, r, targets[r]);
      if (!smoothing) return m.neg(hit);
      const spread = m.div(m.sum(classes, k => this.logP(c, r, k)), m.number(classes));
      return m.neg(m.add(m.mul(m.number(1 - smoothing), hit), m.mul(m.number(smoothing), spread)));
    },
  };
}

/** What an element of a running product or sum along an axis sees. */
function runs(c) {
  const axis = positive(c.options.axis ?? -1, c.shape.length);
  return {axis, n: c.shape[axis]};
}

function einsum(c) {
  const [inputs, output] = c.options.subscripts.split("->"), labels = inputs.split(",");
  const sizes = {};
  labels.forEach((text, i) => [...text].forEach((label, d) => {
    sizes[label] = Math.max(sizes[label] ?? 0, c.shapes[i][d]) * (c.shapes[i][d] === 0 ? 0 : 1);
  }));
  const all = Object.keys(sizes);
  /** The sum over the labels that `known` lacks of the product of `factors(values of labels)`. */
  const sum = (m, known, index, factors) => {
    const free = all.filter(label => !known.includes(label)), lengths = free.map(label => sizes[label]);
    return m.sum(product(lengths), k => {
      const of = Object.fromEntries([...known].map((label, d) => [label, index[d]]));
      unravel(lengths, k).forEach((i, d) => { of[free[d]] = i; });
      return factors(of).reduce((a, b) => m.mul(a, b));
    });
  };
  return {labels, output, sizes, sum};
}

/* ------------------------------------------------------------------------------------------------ the table */

const zero = m => m.number(0);
const halfWhereEqual = (m, dout, a, b, isLess) => {
  const [x, y] = [m.valueOf(a), m.valueOf(b)];
  return isLess(x, y) ? zero(m) : x === y ? m.mul(m.number(0.5), dout) : dout;
};
const larger = (a, b) => Number.isNaN(a) || Number.isNaN(b) ? NaN : Math.max(a, b);
const rint = x => { const r = Math.round(x); return Math.abs(x % 1) === 0.5 && r % 2 !== 0 ? r - 1 : r; };
const STEPS = {floor: Math.floor, ceil: Math.ceil, rint, trunc: Math.trunc, sign: Math.sign};
const remainder = (a, b) => a - b * Math.floor(a / b);
const LEAST_LOG = -100;
const boundedLog = p => p < Math.exp(LEAST_LOG) ? LEAST_LOG : Math.log(p);
const boundedLog1m = p => p === 1 ? LEAST_LOG : Math.log1p(-p);

const OPS = {
  Add: elementwise({
    formula: "out = a + b", backward: ["da = dout", "db = dout"],
    value: (m, a, b) => m.add(a, b),
    gradients: [(m, dout) => dout, (m, dout) => dout],
  }),
  Sub: elementwise({
    formula: "out = a - b", backward: ["da = dout", "db = - dout"],
    value: (m, a, b) => m.sub(a, b),
    gradients: [(m, dout) => dout, (m, dout) => m.neg(dout)],
  }),
  Mul: elementwise({
    formula: "out = a * b", backward: ["da = dout * b", "db = dout * a"],
    value: (m, a, b) => m.mul(a, b),
    gradients: [(m, dout, a, b) => m.mul(dout, b), (m, dout, a, b) => m.mul(dout, a)],
  }),
  Div: elementwise({
    formula: "out = a / b", backward: ["da = dout / b", "db = - dout * a / b^2"],
    value: (m, a, b) => m.div(a, b),
    gradients: [
      (m, dout, a, b) => m.div(dout, b),
      (m, dout, a, b) => m.neg(m.div(m.mul(dout, a), m.pow(b, m.number(2)))),
    ],
  }),
  Neg: elementwise({
    formula: "out = - x", backward: ["dx = - dout"],
    value: (m, x) => m.neg(x), gradients: [(m, dout) => m.neg(dout)],
  }),
  Pow: elementwise({
    formula: "out = a^b", backward: ["da = dout * b * a^(b - 1)", "db = dout * a^b * log(a)"],
    value: (m, a, b) => m.pow(a, b),
    gradients: [
      (m, dout, a, b) => m.valueOf(b) === 0
        ? m.mul(dout, zero(m)) : m.mul(dout, m.mul(b, m.pow(a, m.sub(b, m.number(1))))),
      (m, dout, a, b) => m.valueOf(a) === 0 && m.valueOf(b) >= 0
        ? m.mul(dout, zero(m)) : m.mul(dout, m.mul(m.pow(a, b), m.log(a))),
    ],
  }),
  Abs: elementwise({
    formula: "out = |x|", backward: ["dx = dout * sign(x)"],
    value: (m, x) => m.call("abs", Math.abs, x),
    gradients: [(m, dout, x) => m.mul(dout, m.call("sign", Math.sign, x))],
  }),
  Remainder: elementwise({
    formula: "out = a - b * floor(a / b)", backward: ["da = dout", "db = - dout * floor(a / b)"],
    value: (m, a, b) => m.call("remainder", remainder, a, b),
    gradients: [(m, dout) => dout, (m, dout, a, b) => m.neg(m.mul(dout, m.call("floor", Math.floor, m.div(a, b))))],
  }),
  Fmod: elementwise({
    formula: "out = a - b * trunc(a / b)", backward: ["da = dout", "db = - dout * trunc(a / b)"],
    value: (m, a, b) => m.call("fmod", (a, b) => a % b, a, b),
    gradients: [(m, dout) => dout, (m, dout, a, b) => m.neg(m.mul(dout, m.call("trunc", Math.trunc, m.div(a, b))))],
  }),
  FloorDivide: elementwise({
    formula: "out = floor(a / b)", backward: ["da = 0", "db = 0"],
    value: (m, a, b) => m.call("floor", Math.floor, m.div(a, b)), gradients: [zero, zero],
  }),
  Step: elementwise({
    formula: "out = step(x)", backward: ["dx = 0"],
    value: (m, x, c) => m.call(c.options.function, STEPS[c.options.function], x), gradients: [zero],
  }),
  Clone: elementwise({formula: "out = x", backward: ["dx = dout"], value: (m, x) => x, gradients: [(m, dout) => dout]}),
  Identity: elementwise({formula: "out = x", backward: ["dx = dout"], value: (m, x) => x, gradients: [(m, dout) => dout]}),
  Cast: elementwise({
    formula: "out = x", backward: ["dx = dout"],
    value: (m, x, c) => c.options.dtype === "float32" ? m.call("float32", Math.fround, x) : x,
    gradients: [(m, dout) => dout],
  }),

  Exp: unary("exp", Math.exp, "e^x", "dout * out", (m, dout, x, out) => m.mul(dout, out())),
  Log: unary("log", Math.log, "log(x)", "dout / x", (m, dout, x) => m.div(dout, x)),
  Sqrt: unary("sqrt", Math.sqrt, "sqrt(x)", "dout / (2 * out)",
    (m, dout, x, out) => m.div(dout, m.mul(m.number(2), out()))),
  Tanh: unary("tanh", Math.tanh, "tanh(x)", "dout * (1 - out^2)",
    (m, dout, x, out) => m.mul(dout, m.sub(m.number(1), m.pow(out(), m.number(2))))),
  Sigmoid: unary("sigmoid", sigmoid, "1 / (1 + e^(- x))", "dout * out * (1 - out)",
    (m, dout, x, out) => m.mul(dout, m.mul(out(), m.sub(m.number(1), out())))),
  Rsqrt: unary("rsqrt", x => 1 / Math.sqrt(x), "1 / sqrt(x)", "- dout * out^3 / 2",
    (m, dout, x, out) => m.mul(m.number(-0.5), m.mul(dout, m.pow(out(), m.number(3))))),
  Exp2: plainUnary("exp2", x => 2 ** x, x => Math.LN2 * 2 ** x, "log(2) * 2^x"),
  Expm1: plainUnary("expm1", Math.expm1, Math.exp, "e^x"),
  Log2: plainUnary("log2", Math.log2, x => 1 / (Math.LN2 * x), "1 / (x * log(2))"),
  Log10: plainUnary("log10", Math.log10, x => 1 / (Math.LN10 * x), "1 / (x * log(10))"),
  Log1p: plainUnary("log1p", Math.log1p, x => 1 / (1 + x), "1 / (1 + x)"),
  Sin: plainUnary("sin", Math.sin, Math.cos, "cos(x)"),
  Cos: plainUnary("cos", Math.cos, x => -Math.sin(x), "(- sin(x))"),
  Tan: plainUnary("tan", Math.tan, x => 1 + Math.tan(x) ** 2, "(1 + tan(x)^2)"),
  Sinh: plainUnary("sinh", Math.sinh, Math.cosh, "cosh(x)"),
  Cosh: plainUnary("cosh", Math.cosh, Math.sinh, "sinh(x)"),
  Arcsin: plainUnary("arcsin", Math.asin, x => 1 / Math.sqrt((1 - x) * (1 + x)), "1 / sqrt(1 - x^2)"),
  Arccos: plainUnary("arccos", Math.acos, x => -1 / Math.sqrt((1 - x) * (1 + x)), "(- 1) / sqrt(1 - x^2)"),
  Arctan: plainUnary("arctan", Math.atan, x => 1 / (1 + x * x), "1 / (1 + x^2)"),
  Arcsinh: plainUnary("arcsinh", Math.asinh, x => 1 / Math.sqrt(1 + x * x), "1 / sqrt(1 + x^2)"),
  Arccosh: plainUnary("arccosh", Math.acosh, x => 1 / (Math.sqrt(x - 1) * Math.sqrt(x + 1)), "1 / sqrt(x^2 - 1)"),
  Arctanh: plainUnary("arctanh", Math.atanh, x => 1 / ((1 - x) * (1 + x)), "1 / (1 - x^2)"),
  Erf: plainUnary("erf", erf, x => 2 / SQRT_PI * Math.exp(-x * x), "2 / sqrt(pi) * e^(- x^2)"),
  Erfc: plainUnary("erfc", erfc, x => -2 / SQRT_PI * Math.exp(-x * x), "(- 2) / sqrt(pi) * e^(- x^2)"),
  Atan2: elementwise({
    formula: "out = atan2(a, b)", backward: ["da = dout * b / (a^2 + b^2)", "db = - dout * a / (a^2 + b^2)"],
    value: (m, a, b) => m.call("atan2", Math.atan2, a, b),
    gradients: [
      (m, dout, a, b) => m.mul(dout, m.call("da", (a, b) => a === 0 && b === 0 ? 0 : b / (a * a + b * b), a, b)),
      (m, dout, a, b) => m.mul(dout, m.call("db", (a, b) => a === 0 && b === 0 ? 0 : -a / (a * a + b * b), a, b)),
    ],
  }),
  LogAddExp: elementwise({
    formula: "out = log(e^a + e^b)", backward: ["da = dout * sigmoid(a - b)", "db = dout * sigmoid(b - a)"],
    value: (m, a, b) => m.call("logaddexp", (a, b) => {
      const high = Math.max(a, b);
      return high === -Infinity ? high : high + Math.log1p(Math.exp(Math.min(a, b) - high));
    }, a, b),
    gradients: [(m, dout, a, b) => m.mul(dout, m.call("sigmoid", sigmoid, m.sub(a, b))),
      (m, dout, a, b) => m.mul(dout, m.call("sigmoid", sigmoid, m.sub(b, a)))],
  }),

  Relu: elementwise({
    formula: "out = max(x, 0)", backward: ["dx = dout * [x > 0]"],
    value: (m, x) => m.call("relu", x => larger(x, 0), x),
    gradients: [(m, dout, x) => m.valueOf(x) > 0 ? dout : zero(m)],
  }),
  Softplus: elementwise({
    formula: "out = log(1 + e^(beta x)) / beta", backward: ["dx = dout * sigmoid(beta x)"],
    value: (m, x, c) => m.call("softplus", x => {
      const {beta = 1, threshold = 20} = c.options, z = beta * x;
      return z > threshold ? x : (larger(z, 0) + Math.log1p(Math.exp(-Math.abs(z)))) / beta;
    }, x),
    gradients: [(m, dout, x, c) => m.mul(dout, m.call("sigmoid", x => {
      const {beta = 1, threshold = 20} = c.options;
      return beta * x > threshold ? 1 : sigmoid(beta * x);
    }, x))],
  }),
  LeakyRelu: elementwise({
    formula: "out = x where x > 0, else slope * x", backward: ["dx = dout where x > 0, else slope * dout"],
    value: (m, x, c) => m.valueOf(x) > 0 ? x : m.mul(m.number(c.options.slope ?? 0.01), x),
    gradients: [(m, dout, x, c) => m.valueOf(x) > 0 ? dout : m.mul(m.number(c.options.slope ?? 0.01), dout)],
  }),
  Elu: withOptions("elu", {alpha: 1, scale: 1, stretch: 1},
    "scale * (x where x > 0, else alpha * (e^(stretch x) - 1))", "scale * (1 where x > 0, else alpha * stretch * e^(stretch x))",
    (x, o) => o.scale * (x > 0 ? x : o.alpha * Math.expm1(o.stretch * x)),
    (x, o) => o.scale * (x > 0 ? 1 : o.alpha * o.stretch * Math.exp(o.stretch * x))),
  Hardtanh: withOptions("hardtanh", {low: -1, high: 1}, "min(max(x, low), high)", "[low < x < high]",
    (x, o) => x <= o.low ? o.low : x >= o.high ? o.high : x, (x, o) => x <= o.low || x >= o.high ? 0 : 1),
  Silu: plainUnary("silu", x => x * sigmoid(x), x => sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "sigmoid(x) * (1 + x * (1 - sigmoid(x)))"),
  Logsigmoid: plainUnary("logsigmoid", x => Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x))), x => sigmoid(-x), "sigmoid(- x)"),
  Hardsigmoid: plainUnary("hardsigmoid", hardsigmoid, x => x <= -3 || x >= 3 ? 0 : 1 / 6, "1 / 6 where -3 < x < 3, else 0"),
  Hardswish: plainUnary("hardswish", x => x * hardsigmoid(x), x => x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6,
    "(2 x + 3) / 6, but 0 below -3 and 1 above 3"),
  Mish: plainUnary("mish", x => x * Math.tanh(softplus(x)), x => {
    const t = Math.tanh(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
  }, "(t + x * (1 - t^2) * sigmoid(x)), t = tanh(log(1 + e^x))"),
  Softsign: plainUnary("softsign", x => x / (1 + Math.abs(x)), x => 1 / (1 + Math.abs(x)) ** 2, "1 / (1 + |x|)^2"),
  Tanhshrink: plainUnary("tanhshrink", x => x - Math.tanh(x), x => Math.tanh(x) ** 2, "tanh(x)^2"),
  Gelu: elementwise({
    formula: "out = x * P(x)", backward: ["dx = dout * (P(x) + x * P'(x))"],
    value: (m, x, c) => gelu(m, x, approximation(c)),
    gradients: [(m, dout, x, c) => m.mul(dout, geluSlope(m, x, approximation(c)))],
  }),
  SwiGLU: elementwise({
    formula: "out = a * sigmoid(a) * b",
    backward: ["da = dout * b * (sigmoid(a) + a * sigmoid'(a))", "db = dout * a * sigmoid(a)"],
    value: (m, a, b) => m.mul(m.mul(a, m.call("sigmoid", sigmoid, a)), b),
    gradients: [
      (m, dout, a, b) => m.mul(m.mul(dout, b), m.call("silu'", x => sigmoid(x) * (1 + x * (1 - sigmoid(x))), a)),
      (m, dout, a) => m.mul(dout, m.mul(a, m.call("sigmoid", sigmoid, a))),
    ],
  }),

  Where: elementwise({
    formula: "out = a where the condition holds, else b", backward: ["da = dout there, else 0", "db = 0 there, else dout"],
    shape: c => broadcast(...c.shapes, option(c, "condition").shape),
    value: (m, a, b, c, index) => optionAt(c, "condition", index) ? a : b,
    gradients: [
      (m, dout, a, b, c, index) => optionAt(c, "condition", index) ? dout : zero(m),
      (m, dout, a, b, c, index) => optionAt(c, "condition", index) ? zero(m) : dout,
    ],
  }),
  Maximum: elementwise({
    formula: "out = max(a, b)", backward: ["da = dout * [a > b]", "db = dout * [b > a]"],
    value: (m, a, b) => m.call("max", larger, a, b),
    gradients: [
      (m, dout, a, b) => halfWhereEqual(m, dout, a, b, (a, b) => a < b),
      (m, dout, a, b) => halfWhereEqual(m, dout, b, a, (b, a) => b < a),
    ],
  }),
  Minimum: elementwise({
    formula: "out = min(a, b)", backward: ["da = dout * [a < b]", "db = dout * [b < a]"],
    value: (m, a, b) => m.call("min", Math.min, a, b),
    gradients: [
      (m, dout, a, b) => halfWhereEqual(m, dout, a, b, (a, b) => b < a),
      (m, dout, a, b) => halfWhereEqual(m, dout, b, a, (b, a) => a < b),
    ],
  }),
  Lerp: elementwise({
    names: ["a", "b", "w"],
    formula: "out = a + w * (b - a) where |w| < 1/2, else b - (1 - w) * (b - a)",
    backward: ["da = dout * (1 - w)", "db = dout * w", "dw = dout * (b - a)"],
    value: (m, a, b, w) => Math.abs(m.valueOf(w)) < 0.5 ? m.add(a, m.mul(w, m.sub(b, a)))
      : m.sub(b, m.mul(m.sub(m.number(1), w), m.sub(b, a))),
    gradients: [
      (m, dout, a, b, w) => m.mul(dout, m.sub(m.number(1), w)),
      (m, dout, a, b, w) => m.mul(dout, w),
      (m, dout, a, b) => m.mul(dout, m.sub(b, a)),
    ],
  }),
  Clamp: elementwise({
    formula: "out = min(max(x, low), high)", backward: ["dx = dout * [low <= x <= high]"],
    value: (m, x, c) => m.call("clamp", x => Math.min(Math.max(x, Number(c.options.low)), Number(c.options.high)), x),
    gradients: [(m, dout, x, c) => m.valueOf(x) >= Number(c.options.low) && m.valueOf(x) <= Number(c.options.high)
      ? dout : zero(m)],
  }),
  Dropout: dropping(factor),
  WeightsDropout: dropping((c, index) => weightsFactor(c, c.shape, c.options.p, index)),
  AddDropped: elementwise({
    formula: "out = a + b * keep / (1 - p)", backward: ["da = dout", "db = dout * keep / (1 - p)"],
    value: (m, a, b, c, index) => m.add(a, m.mul(b, m.number(factor(c, index)))),
    gradients: [(m, dout) => dout, (m, dout, a, b, c, index) => m.mul(dout, m.number(factor(c, index)))],
  }),
  BinaryCrossEntropy: elementwise({
    names: ["p", "t"],
    formula: "out = - (t * log(p) + (1 - t) * log(1 - p))",
    backward: ["dp = dout * (p - t) / (p * (1 - p))", "dt = dout * (log(1 - p) - log(p))"],
    value: (m, p, t) => m.neg(m.add(m.mul(t, m.call("log", boundedLog, p)),
      m.mul(m.sub(m.number(1), t), m.call("log1m", boundedLog1m, p)))),
    gradients: [
      (m, dout, p, t) => m.div(m.mul(dout, m.sub(p, t)), m.call("p(1 - p)", p => Math.max(p * (1 - p), 1e-12), p)),
      (m, dout, p) => m.mul(dout, m.sub(m.call("log1m", boundedLog1m, p), m.call("log", boundedLog, p))),
    ],
  }),
  BinaryCrossEntropyWithLogits: elementwise({
    names: ["x", "t", "w"],
    formula: "out = w * t * s(-x) + (1 - t) * s(x), s(x) = log(1 + e^x)",
    backward: ["dx = dout * ((1 - t) * sigmoid(x) - w * t * sigmoid(-x))", "dt = dout * (w * s(-x) - s(x))",
      "dw = dout * t * s(-x)"],
    value: (m, x, t, w) => m.add(m.mul(m.mul(w, t), m.call("s", softplus, m.neg(x))),
      m.mul(m.sub(m.number(1), t), m.call("s", softplus, x))),
    gradients: [
      (m, dout, x, t, w) => m.mul(dout, m.sub(m.mul(m.sub(m.number(1), t), m.call("sigmoid", sigmoid, x)),
        m.mul(m.mul(w, t), m.call("sigmoid", sigmoid, m.neg(x))))),
      (m, dout, x, t, w) => m.mul(dout, m.sub(m.mul(w, m.call("s", softplus, m.neg(x))), m.call("s", softplus, x))),
      (m, dout, x, t) => m.mul(dout, m.mul(t, m.call("s", softplus, m.neg(x)))),
    ],
  }),
  SquaredError: differenceLoss("square", {}, "d^2", "2 d", d => d * d, d => 2 * d),
  AbsoluteError: differenceLoss("abs", {}, "|d|", "sign d", Math.abs, Math.sign),
  Huber: differenceLoss("huber", {delta: 1}, "(d^2 / 2 where |d| <= delta, else delta * (|d| - delta / 2))",
    "min(max(d, -delta), delta)",
    (d, o) => Math.abs(d) <= o.delta ? d * d / 2 : o.delta * (Math.abs(d) - o.delta / 2),
    (d, o) => Math.min(Math.max(d, -o.delta), o.delta)),
  SmoothL1: differenceLoss("smoothL1", {beta: 1}, "(d^2 / (2 beta) where |d| < beta, else |d| - beta / 2)",
    "min(max(d / beta, -1), 1)",
    (d, o) => Math.abs(d) < o.beta ? d * d / 2 / o.beta : Math.abs(d) - o.beta / 2,
    (d, o) => Math.min(Math.max(d / o.beta, -1), 1)),

  Sum: reduce({
    formula: "out = sum x", backward: ["dx_i = dout"],
    value: (c, x, n) => c.m.sum(n, x),
    gradient: (c, index, out) => c.dout(out),
  }),
  Mean: reduce({
    formula: "out = sum x / n", backward: ["dx_i = dout / n"],
    value: (c, x, n) => c.m.div(c.m.sum(n, x), c.m.number(n)),
    gradient: (c, index, out, n) => c.m.div(c.dout(out), c.m.number(n)),
  }),
  Max: chosen("max", all => all.reduce(larger, -Infinity)),
  Min: chosen("min", all => -all.reduce((a, b) => larger(a, -b), -Infinity)),
  Median: chosen("median", all => all.some(Number.isNaN) ? NaN : all.sort((a, b) => a - b)[(all.length - 1) >> 1] ?? NaN),
  LogSumExp: reduce({
    formula: "out = log(sum e^x)", backward: ["dx_i = dout * e^(x_i - out)"],
    value: (c, x, n) => {
      const m = c.m, largest = numbers.max(n, k => m.valueOf(x(k))), shift = Number.isFinite(largest) ? largest : 0;
      return m.add(m.log(m.sum(n, k => m.exp(m.sub(x(k), m.number(shift))))), m.number(shift));
    },
    gradient: (c, index, out) => {
      const m = c.m, isNothing = m.valueOf(c.out(out)) === -Infinity;
      return m.mul(c.dout(out), m.exp(isNothing ? c.x(0, index) : m.sub(c.x(0, index), c.out(out))));
    },
  }),
  Norm: reduce({
    formula: "out = (sum |x|^p)^(1 / p)", backward: ["dx_i = dout * sign(x_i) * (|x_i| / out)^(p - 1)"],
    value: (c, x, n) => {
      const m = c.m, p = c.options.p ?? 2;
      if (p === 2) return m.sqrt(m.sum(n, k => m.pow(x(k), m.number(2))));
      return m.pow(m.sum(n, k => m.pow(m.call("abs", Math.abs, x(k)), m.number(p))), m.number(1 / p));
    },
    gradient: (c, index, out) => {
      const m = c.m, p = c.options.p ?? 2, x = c.x(0, index), norm = c.out(out);
      if (m.valueOf(norm) === 0) return zero(m);
      if (p === 2) return m.mul(m.div(c.dout(out), norm), x);
      if (m.valueOf(x) === 0) return zero(m);
      const ratio = m.div(m.call("abs", Math.abs, x), norm);
      return m.mul(m.mul(c.dout(out), m.call("sign", Math.sign, x)), m.pow(ratio, m.number(p - 1)));
    },
  }),
  Var: spread("out = sum (x - mean)^2 / (n - correction)", "dx_i = dout * 2 (x_i - mean) / (n - correction)",
    (m, squares) => squares, (m, dout) => m.mul(m.number(2), dout)),
  Std: spread("out = sqrt(sum (x - mean)^2 / (n - correction))", "dx_i = dout / out * (x_i - mean) / (n - correction)",
    (m, squares) => m.sqrt(squares),
    (m, dout, out) => m.valueOf(out()) === 0 ? zero(m) : m.div(dout, out())),
  Prod: {
    names: ["x"], formula: "out = product of x", backward: ["dx_i = dout * product of the other x"],
    shape: c => lead(c.shapes[0]),
    value: (c, index) => c.m.prod(last(c.shapes[0]), k => c.x(0, [...index, k])),
    gradient: (c, i, index) => c.m.mul(c.dout(lead(index)), c.m.prod(last(c.shapes[0]),
      k => k === last(index) ? c.m.number(1) : c.x(0, [...lead(index), k]))),
  },
  CumSum: {
    names: ["x"], formula: "out_i = x_0 + ... + x_i", backward: ["dx_i = dout_i + ... + dout_n"],
    shape: c => c.shapes[0],
    value: (c, index) => running(c, index, Boolean(c.options.reverse), i => c.x(0, i)),
    gradient: (c, i, index) => running(c, index, !c.options.reverse, i => c.dout(i)),
  },
  CumProd: {
    names: ["x"], formula: "out_i = x_0 * ... * x_i", backward: ["dx_i = sum_j dout_j * product of the other x"],
    shape: c => c.shapes[0],
    value: (c, index) => c.m.prod(last(index) + 1, k => c.x(0, [...lead(index), k])),
    gradient: (c, i, index) => c.m.sum(last(c.shape) - last(index), j => c.m.mul(c.dout([...lead(index), last(index) + j]),
      c.m.prod(last(index) + j + 1, k => k === last(index) ? c.m.number(1) : c.x(0, [...lead(index), k])))),
  },
  LogCumSumExp: {
    names: ["x"], formula: "out_i = log(e^(x_0) + ... + e^(x_i))", backward: ["dx_i = sum_j dout_j e^(x_i - out_j)"],
    shape: c => c.shapes[0],
    value(c, index) {
      const m = c.m, n = last(index) + 1, x = k => c.x(0, [...lead(index), k]);
      const largest = numbers.max(n, k => m.valueOf(x(k))), shift = Number.isFinite(largest) ? largest : 0;
      return m.add(m.log(m.sum(n, k => m.exp(m.sub(x(k), m.number(shift))))), m.number(shift));
    },
    gradient(c, i, index) {
      const m = c.m, at = j => [...lead(index), last(index) + j];
      return m.sum(last(c.shape) - last(index), j => m.valueOf(c.out(at(j))) === -Infinity ? zero(m)
        : m.mul(c.dout(at(j)), m.exp(m.sub(c.x(0, index), c.out(at(j))))));
    },
  },

  Softmax: {
    names: ["x"],
    formula: "out_i = e^(x_i) / sum_k e^(x_k)", backward: ["dx_i = out_i (dout_i - sum_k dout_k out_k)"],
    shape: c => c.shapes[0],
    value(c, index) {
      const {power, total} = softmaxParts(c);
      return c.m.div(power(index), total(index));
    },
    gradient(c, i, index) {
      const {dim, n, at} = row(c), m = c.m;
      const rowsum = c.once("rowsum", kept(c.shape, dim),
        (c, i) => dot(c.m, n, k => c.dout(at(i, k)), k => c.out(at(i, k))));
      return m.mul(c.out(index), m.sub(c.dout(index), rowsum(at(index, 0))));
    },
  },
  LogSoftmax: {
    names: ["x"],
    formula: "out_i = x_i - log(sum_k e^(x_k))", backward: ["dx_i = dout_i - e^(out_i) sum_k dout_k"],
    shape: c => c.shapes[0],
    value(c, index) {
      const {total, largest} = softmaxParts(c), m = c.m;
      return m.sub(m.sub(c.x(0, index), largest(index)), m.log(total(index)));
    },
    gradient(c, i, index) {
      const {dim, n, at} = row(c), m = c.m;
      const sum = c.once("sum of dout", kept(c.shape, dim), (c, i) => c.m.sum(n, k => c.dout(at(i, k))));
      return m.sub(c.dout(index), m.mul(m.exp(c.out(index)), sum(at(index, 0))));
    },
  },
  Normalize: {
    names: ["x"],
    formula: "out_i = x_i / n,  n = max(sqrt(sum_k x_k^2), eps)",
    backward: ["dx_i = (dout_i - out_i sum_k dout_k out_k) / n, and dout_i / eps where n = eps"],
    shape: c => c.shapes[0],
    value: (c, index) => c.m.div(c.x(0, index), lengthOf(c).length(index)),
    gradient(c, i, index) {
      const {dim, n, at} = row(c), m = c.m, {eps, length: lengths} = lengthOf(c), length = lengths(index);
      if (m.valueOf(length) === eps) return m.div(c.dout(index), length);
      const along = c.once("sum of dout * out", kept(c.shape, dim),
        (c, i) => dot(c.m, n, k => c.dout(at(i, k)), k => c.out(at(i, k))));
      return m.div(m.sub(c.dout(index), m.mul(c.out(index), along(at(index, 0)))), length);
    },
  },

  Dot: {
    names: ["a", "b"],
    formula: "out = sum_k a_k b_k", backward: ["da_k = dout * b_k", "db_k = dout * a_k"],
    shape: () => [],
    value: c => c.m.sum(c.shapes[0][0], k => c.m.mul(c.x(0, [k]), c.x(1, [k]))),
    gradient: (c, slot, index) => c.m.mul(c.dout([]), c.x(1 - slot, index)),
  },
  MatMul: {
    names: ["a", "b"],
    formula: "out_ij = sum_k a_ik b_kj", backward: ["da_ik = sum_j dout_ij b_kj", "db_kj = sum_i a_ik dout_ij"],
    shape({shapes: [a, b]}) { return [...broadcast(a.slice(0, -2), b.slice(0, -2)), ...a.slice(-2, -1), last(b)]; },
    gradientShape: (c, i) => [...c.shape.slice(0, -2), ...c.shapes[i].slice(-2)],
    value(c, index) {
      const [i, j] = index.slice(-2), leading = index.slice(0, -2);
      return dot(c.m, last(c.shapes[0]), k => c.x(0, [...leading, i, k]), k => c.x(1, [...leading, k, j]));
    },
    gradient(c, slot, index) {
      const [i, j] = index.slice(-2), leading = index.slice(0, -2);
      if (slot === 0) return dot(c.m, last(c.shape), n => c.dout([...leading, i, n]), n => c.x(1, [...leading, j, n]));
      return dot(c.m, c.shape[c.shape.length - 2], n => c.x(0, [...leading, n, i]), n => c.dout([...leading, n, j]));
    },
  },
  Linear: linear,
  MLP: {
    names: ["x", "E", "e", "P", "p"],
    formula: "out = gelu(h) P^T + p,  h = x E^T + e",
    backward: ["dx = dh E", "dE = dh^T x", "de = sum_t dh_t", "dP = dout^T gelu(h)", "dp = sum_t dout_t"],
    shape: c => [...lead(c.shapes[0]), c.shapes[3][0]],
    value(c, index) {
      const {hidden, kind, width} = mlp(c), m = c.m, o = last(index);
      const sum = dot(m, width, k => gelu(m, hidden([...lead(index), k]), kind), k => c.x(3, [o, k]));
      return c.has(4) ? m.add(sum, c.x(4, [o])) : sum;
    },
    gradient(c, i, index) {
      const {hidden, dhidden, kind, width, rows} = mlp(c, true), m = c.m;
      if (i === 0) return dot(m, width, k => dhidden([...lead(index), k]), k => c.x(1, [k, last(index)]));
      if (i === 1) return dot(m, rows.n, r => dhidden(rows.at(r, index[0])), r => c.x(0, rows.at(r, index[1])));
      if (i === 2) return m.sum(rows.n, r => dhidden(rows.at(r, index[0])));
      const dout = r => c.dout(rows.at(r, index[0]));
      return i === 3 ? dot(m, rows.n, dout, r => gelu(m, hidden(rows.at(r, index[1])), kind)) : m.sum(rows.n, dout);
    },
  },
  Einsum: {
    names: ["a", "b"], formula: "out = the sum of products", backward: [],
    shape: c => [...einsum(c).output].map(label => einsum(c).sizes[label]),
    gradientShape: (c, i) => [...einsum(c).labels[i]].map(label => einsum(c).sizes[label]),
    value(c, index) {
      const {labels, output, sum} = einsum(c);
      return sum(c.m, output, index, of => labels.map((text, i) => c.x(i, [...text].map(label => of[label]))));
    },
    gradient(c, slot, index) {
      const {labels, output, sum} = einsum(c);
      return sum(c.m, labels[slot], index, of => [
        c.dout([...output].map(label => of[label])),
        ...labels.flatMap((text, i) => i === slot ? [] : [c.x(i, [...text].map(label => of[label]))]),
      ]);
    },
  },

  LayerNorm: {
    names: ["x", "w", "b"],
    formula: "out_i = (x_i - mean) * rstd * w_i + b_i",
    backward: [
      "dx_i = rstd * (dout_i w_i - mean(dout w) - h_i * mean(dout w h)),  h = (x - mean) * rstd",
      "dw_i = sum dout_i h_i", "db_i = sum dout_i",
    ],
    shape: c => c.shapes[0],
    value(c, index) {
      const m = c.m, {hat} = normalised(c), i = [last(index)];
      const scaled = c.has(1) ? m.mul(hat(c, index), c.x(1, i)) : hat(c, index);
      return c.has(2) ? m.add(scaled, c.x(2, i)) : scaled;
    },
    gradient(c, slot, index) {
      const {n, rows, at, hat} = normalised(c), m = c.m;
      if (slot > 0) {
        const all = rowsOf(c.shape), dout = r => c.dout(all.at(r, index[0]));
        return slot === 1 ? dot(m, all.n, dout, r => hat(c, all.at(r, index[0]))) : m.sum(all.n, dout);
      }
      const scaled = (c, i) => c.has(1) ? c.m.mul(c.dout(i), c.x(1, [last(i)])) : c.dout(i);
      const mean = c.aside("mean of dout w", rows,
        (c, i) => c.m.div(c.m.sum(n, k => scaled(c, at(i, k))), c.m.number(n)));
      const stretch = c.aside("mean of dout w h", rows,
        (c, i) => c.m.div(dot(c.m, n, k => scaled(c, at(i, k)), k => hat(c, at(i, k))), c.m.number(n)));
      const r = at(index, 0);
      return m.mul(c.read("rstd")(r),
        m.sub(m.sub(scaled(c, index), mean(r)), m.mul(hat(c, index), stretch(r))));
    },
  },
  RMSNorm: {
    names: ["x", "w"],
    formula: "out_i = h_i * w_i,  h = x / sqrt(mean(x^2) + eps)",
    backward: [
      "dx_i = rrms * (dout_i w_i - h_i * mean(dout w h)),  rrms = 1 / sqrt(mean(x^2) + eps)", "dw_i = sum dout_i h_i",
    ],
    shape: c => c.shapes[0],
    value(c, index) {
      const {hat} = rootMeanSquare(c);
      return c.has(1) ? c.m.mul(hat(c, index), c.x(1, [last(index)])) : hat(c, index);
    },
    gradient(c, slot, index) {
      const {n, rows, at, hat} = rootMeanSquare(c), m = c.m, all = rowsOf(c.shape);
      if (slot === 1) return dot(m, all.n, r => c.dout(all.at(r, index[0])), r => hat(c, all.at(r, index[0])));
      const scaled = (c, i) => c.has(1) ? c.m.mul(c.dout(i), c.x(1, [last(i)])) : c.dout(i);
      const stretch = c.aside("mean of dout w h", rows,
        (c, i) => c.m.div(dot(c.m, n, k => scaled(c, at(i, k)), k => hat(c, at(i, k))), c.m.number(n)));
      const r = at(index, 0);
      return m.mul(c.read("rrms")(r), m.sub(scaled(c, index), m.mul(hat(c, index), stretch(r))));
    },
  },
  CrossEntropy: {
    names: ["x"],
    formula: "out = - mean log p_target,  p = softmax(x)", backward: ["dx_rk = dout / n * (p_rk - [k = target])"],
    shape: c => (c.options.reduction ?? "mean") === "none" ? [c.shapes[0][0]] : [],
    value(c, index) {
      const e = crossEntropy(c), m = c.m;
      if (e.reduction === "none") return e.loss(c, index[0]);
      const total = m.sum(e.rows, r => e.loss(c, r));
      return e.reduction === "sum" ? total : m.div(total, m.number(e.counted));
    },
    gradient(c, slot, [r, k]) {
      const e = crossEntropy(c), m = c.m;
      if (!e.counts(r)) return zero(m);
      const slope = m.sub(m.exp(e.logP(c, r, k)), m.number(e.wanted(r, k)));
      const dout = c.dout(e.reduction === "none" ? [r] : []);
      return m.mul(e.reduction === "mean" ? m.div(dout, m.number(e.counted)) : dout, slope);
    },
  },
  CrossEntropyOfDistributions: {
    names: ["x", "q"],
    formula: "out = - sum_k q_k log p_k,  p = softmax(x)",
    backward: ["dx_rk = dout_r * (p_rk sum_j q_rj - q_rk)", "dq_rk = - dout_r log p_rk"],
    shape: c => [c.shapes[0][0]],
    value(c, [r]) {
      const logP = logOfSoftmax(c), m = c.m;
      return m.neg(m.sum(c.shapes[0][1], k => m.mul(c.x(1, [r, k]), logP(c, r, k))));
    },
    gradient(c, slot, [r, k]) {
      const logP = logOfSoftmax(c), m = c.m;
      if (slot === 1) return m.neg(m.mul(c.dout([r]), logP(c, r, k)));
      const total = c.once("sum of q", [c.shapes[0][0]], (c, [r]) => c.m.sum(c.shapes[0][1], j => c.x(1, [r, j])));
      return m.mul(c.dout([r]), m.sub(m.mul(m.exp(logP(c, r, k)), total([r])), c.x(1, [r, k])));
    },
  },
  NegativeLogLikelihood: {
    names: ["x"],
    formula: "out = - mean x_target", backward: ["dx_rk = - dout / n where k = target, else 0"],
    shape: c => (c.options.reduction ?? "mean") === "none" ? [c.shapes[0][0]] : [],
    value(c, index) {
      const e = withTargets(c), m = c.m;
      const loss = r => e.counts(r) ? m.neg(c.x(0, [r, e.targets[r]])) : zero(m);
      if (e.reduction === "none") return loss(index[0]);
      const total = m.sum(e.rows, loss);
      return e.reduction === "sum" ? total : m.div(total, m.number(e.counted));
    },
    gradient(c, slot, [r, k]) {
      const e = withTargets(c), m = c.m;
      if (!e.counts(r) || e.targets[r] !== k) return zero(m);
      const dout = m.neg(c.dout(e.reduction === "none" ? [r] : []));
      return e.reduction === "mean" ? m.div(dout, m.number(e.counted)) : dout;
    },
  },
  Embedding: {
    names: ["w", "p"],
    formula: "out_t = w_id", backward: ["dw_id = sum dout_t, where id stands", "dp_t = sum dout_t"],
    shape: c => [...option(c, "ids").shape, last(c.shapes[0])],
    value(c, index) {
      const row = c.x(0, [optionAt(c, "ids", lead(index)), last(index)]);
      return c.has(1) ? c.m.add(row, c.x(1, index.slice(-2))) : row;
    },
    gradient(c, slot, [r, i]) {
      const places = c.keep("places", () => {
        const found = new Map();
        option(c, "ids").data.forEach((id, place) => { if (!found.has(id)) found.set(id, []); found.get(id).push(place); });
        return found;
      });
      const leading = option(c, "ids").shape, m = c.m;
      const at = slot === 0 ? places.get(r) || []
        : each(product(leading), k => k).filter(place => last(unravel(leading, place)) === r);
      return m.sum(at.length, k => c.dout([...unravel(leading, at[k]), i]));
    },
  },
  ScaledDotProductAttention: {
    names: ["q", "k", "v", "mask", "rotation"],
    formula: "out = softmax(q k^T * scale + mask) v",
    backward: ["dq = dscores k * scale", "dk = dscores^T q * scale", "dv = weights^T dout"],
    shape: c => [...lead(c.shapes[0]), last(c.shapes[2])],
    value(c, index) {
      const n = index.length;
      return scaledDotProduct(c).out(index.slice(0, n - 2), index[n - 2], index[n - 1]);
    },
    gradient(c, slot, index) {
      const n = index.length, rule = ["dq", "dk", "dv"][slot];
      return scaledDotProduct(c)[rule](index.slice(0, n - 2), index[n - 2], index[n - 1]);
    },
  },
  PackedAttention: {
    names: ["x", "rotation"],
    formula: "out = softmax(q k^T / sqrt(D)) v, of x = [q | k | v]",
    backward: ["dx = [dscores k / sqrt(D) | dscores^T q / sqrt(D) | weights^T dout]"],
    shape: c => [...lead(c.shapes[0]), last(c.shapes[0]) / 3],
    value(c, [b, t, i]) {
      const {size, out} = packed(c);
      return out([b, Math.floor(i / size)], t, i % size);
    },
    gradient(c, slot, [b, t, i]) {
      const {size, width, ...rules} = packed(c), part = Math.floor(i / width), j = i % width;
      return rules[["dq", "dk", "dv"][part]]([b, Math.floor(j / size)], t, j % size);
    },
  },

  Reshape: moves({
    formula: "out = x in another shape", backward: ["dx = dout in the shape of x"],
    shape(c) {
      const n = product(c.shapes[0]), known = product([c.options.shape].flat().filter(length => length !== -1));
      return [c.options.shape].flat().map(length => length === -1 ? n / known : length);
    },
    from: (c, index, place) => [0, place],
  }),
  Permute: moves({
    formula: "out = x with its axes in another order", backward: ["dx = dout with its axes back in order"],
    shape: c => c.options.axes.map(axis => c.shapes[0][axis]),
    from: (c, index) => {
      const source = [];
      c.options.axes.forEach((axis, d) => { source[axis] = index[d]; });
      return [0, ravel(c.shapes[0], source)];
    },
  }),
  Expand: moves({
    formula: "out = x repeated", backward: ["dx = sum of dout over the repetitions"],
    shape: c => c.options.shape,
    from: (c, index) => [0, ravel(c.shapes[0], index)],
  }),
  Concatenate: moves({
    formula: "out = [a | b | ...]", backward: [],
    shape(c) {
      const axis = positive(c.options.axis, c.shapes[0].length);
      return along(c.shapes[0], axis, c.shapes.reduce((n, shape) => n + shape[axis], 0));
    },
    from(c, index) {
      const axis = positive(c.options.axis, index.length);
      let i = 0, k = index[axis];
      while (k >= c.shapes[i][axis]) k -= c.shapes[i++][axis];
      return [i, ravel(c.shapes[i], along(index, axis, k))];
    },
  }),
  Stack: moves({
    formula: "out = [a, b, ...]", backward: [],
    shape(c) {
      const axis = positive(c.options.axis, c.shapes[0].length + 1);
      return [...c.shapes[0].slice(0, axis), c.shapes.length, ...c.shapes[0].slice(axis)];
    },
    from(c, index) {
      const axis = positive(c.options.axis, index.length);
      return [index[axis], ravel(c.shapes[index[axis]], index.filter((_, i) => i !== axis))];
    },
  }),
  Index: moves({
    formula: "out = x[index]", backward: ["dx[index] += dout"],
    shape: c => indexOf(c, c.shapes[0]).shape,
    from: (c, index, place) => [0, indexOf(c, c.shapes[0]).places[place]],
  }),
  Diagonal: moves({
    formula: "out_i = x_ii", backward: ["dx_ii = dout_i"],
    shape(c) {
      const [rows, columns] = c.shapes[0].slice(-2), {offset} = c.options;
      const n = Math.max(0, Math.min(rows - Math.max(0, -offset), columns - Math.max(0, offset)));
      return [...c.shapes[0].slice(0, -2), n];
    },
    from(c, index) {
      const {offset} = c.options, i = last(index);
      return [0, ravel(c.shapes[0], [...lead(index), i + Math.max(0, -offset), i + Math.max(0, offset)])];
    },
  }),
  FromDiagonal: adds({
    formula: "out_ii = x_i, else 0", backward: ["dx_i = dout_ii"],
    shape: c => c.options.shape,
    to(c, index) {
      const {offset, shape} = c.options, i = last(index);
      return ravel(shape, [...lead(index), i + Math.max(0, -offset), i + Math.max(0, offset)]);
    },
  }),
  Triangle: moves({
    formula: "out_ij = x_ij on one side of a diagonal, else 0", backward: ["dx_ij = dout_ij there, else 0"],
    shape: c => c.shapes[0],
    from(c, index, place) {
      const {diagonal, upper} = c.options, [i, j] = index.slice(-2);
      return (upper ? j - i >= diagonal : j - i <= diagonal) ? [0, place] : null;
    },
  }),
  Flip: moves({
    formula: "out_i = x_(n - 1 - i), along axes", backward: ["dx_i = dout_(n - 1 - i)"],
    shape: c => c.shapes[0],
    from: (c, index) => [0, ravel(c.shape, index.map((i, d) => c.options.axes.includes(d) ? c.shape[d] - 1 - i : i))],
  }),
  Roll: moves({
    formula: "out_((i + shift) mod n) = x_i, along one axis", backward: ["dx_i = dout_((i + shift) mod n)"],
    shape: c => c.shapes[0],
    from(c, index) {
      const {shift, dim} = c.options, n = c.shape[dim];
      return [0, ravel(c.shape, along(index, dim, ((index[dim] - shift) % n + n) % n))];
    },
  }),
  Pad: adds({
    formula: "out = x, with a value around it", backward: ["dx = dout where x stands"],
    shape: c => c.options.shape,
    to: (c, index) => ravel(c.shape, index.map((i, d) => i + c.options.index[d].slice[0])),
  }),
  Gather: moves({
    formula: "out_ij = x_i,index_ij, along one axis", backward: ["dx_i,index_ij += dout_ij"],
    shape: c => option(c, "indices").shape,
    from: (c, index) => [0, ravel(c.shapes[0], along(index, c.options.dim, optionAt(c, "indices", index)))],
  }),
  ScatterAdd: adds({
    names: ["x", "onto"],
    formula: "out = onto, or 0, and then out_i,index_ij += x_ij, along one axis",
    backward: ["dx_ij = dout_i,index_ij", "donto = dout"],
    shape: c => c.options.shape,
    to: (c, index) => ravel(c.shape, along(index, c.options.dim, optionAt(c, "indices", index))),
  }),
  Unfold: moves({
    formula: "out_wj = x_(w * step + j)", backward: ["dx_i = sum dout_wj where w * step + j = i"],
    shape({shapes: [x], options: {size, step}}) { return [...lead(x), Math.floor((last(x) - size) / step) + 1, size]; },
    from: (c, index) => [0, ravel(c.shapes[0], inWindow(c, index))],
  }),
  Fold: adds({
    formula: "out_i = sum x_wj where w * step + j = i", backward: ["dx_wj = dout_(w * step + j)"],
    shape: c => [...c.shapes[0].slice(0, -2), c.options.length],
    to: (c, index) => ravel(c.shape, inWindow(c, index)),
  }),
  AddAt: adds({
    names: ["x", "onto"],
    formula: "out = onto, or 0, and then out[index] += x", backward: ["dx = dout[index]", "donto = dout"],
    shape: c => c.options.shape,
    gradientShape: (c, i) => i === 1 ? c.shape : indexOf(c, c.shape).shape,
    to: (c, index, place) => indexOf(c, c.shape).places[place],
  }),
  SetAt: moves({
    names: ["x", "value"],
    formula: "out = x, but out[index] = value", backward: ["dx = dout, 0 at index", "dvalue = dout[index]"],
    shape: c => c.shapes[0],
    from(c, index, place) {
      const written = c.keep("written", () => {
        const {shape, places} = indexOf(c, c.shapes[0]);
        return new Map(places.map((to, k) => [to, ravel(c.shapes[1], unravel(shape, k))]));
      });
      return written.has(place) ? [1, written.get(place)] : [0, place];
    },
  }),
  Scatter: moves({
    names: ["x", "value"],
    formula: "out = x, but out_i,index_ij = value_ij, along one axis",
    backward: ["dx = dout, 0 at i,index_ij", "dvalue_ij = dout_i,index_ij"],
    shape: c => c.shapes[0],
    from(c, index, place) {
      const written = c.keep("written", () => {
        const {shape, data} = option(c, "indices"), from = data.map((_, k) => unravel(shape, k));
        return new Map(data.map((at, k) => [ravel(c.shapes[0], along(from[k], c.options.dim, at)), ravel(c.shapes[1], from[k])]));
      });
      return written.has(place) ? [1, written.get(place)] : [0, place];
    },
  }),
};

/** Reductions to one of the numbers. */
function chosen(name, choose) {
  return reduce({
    formula: `out = ${name} x`, backward: ["dx_i = dout where x_i = out, shared by equals"],
    value: (c, x, n) => c.m.call(name, (...all) => choose(all), ...each(n, x)),
    gradient(c, index, out, n) {
      const m = c.m, isChosen = x => Number.isNaN(m.valueOf(x)) || m.valueOf(x) === m.valueOf(c.out(out));
      if (!isChosen(c.x(0, index))) return zero(m);
      const ties = each(n, k => c.x(0, reduction(c).into(out, k))).filter(isChosen).length;
      return ties === 1 ? c.dout(out) : m.div(c.dout(out), m.number(ties));
    },
  });
}

function spread(formula, backward, after, before) {
  const meanOf = c => c.aside("mean", c.shape, (c, index) => {
    const {n, into} = reduction(c);
    return c.m.div(c.m.sum(n, k => c.x(0, into(index, k))), c.m.number(n));
  });
  const divisor = (c, n) => Math.max(n - (c.options.correction ?? 1), 0);
  return {
    names: ["x"], formula, backward: [backward], shape: c => reduction(c).shape,
    value(c, index) {
      const m = c.m, {n, into} = reduction(c), mean = meanOf(c)(index);
      const squares = m.sum(n, k => m.pow(m.sub(c.x(0, into(index, k)), mean), m.number(2)));
      return after(m, m.div(squares, m.number(divisor(c, n))));
    },
    gradient(c, i, index) {
      const m = c.m, {n, outOf} = reduction(c), out = outOf(index);
      const slope = m.div(m.sub(c.x(0, index), meanOf(c)(out)), m.number(divisor(c, n)));
      return m.mul(before(m, c.dout(out), () => c.out(out)), slope);
    },
  };
}

function running(c, index, isReverse, read) {
  const {axis, n} = runs(c), i = index[axis];
  const at = k => read(along(index, axis, k));
  return isReverse ? c.m.sum(n - i, k => at(i + k)) : c.m.sum(i + 1, at);
}

function mlp(c, isBackward = false) {
  const rows = rowsOf(c.shapes[0]), [width, inputs] = c.shapes[1], kind = approximation(c);
  const all = [...lead(c.shapes[0]), width];
  const hidden = c.aside("h", all, (c, index) => {
    const m = c.m, k = last(index), sum = dot(m, inputs, i => c.x(0, [...lead(index), i]), i => c.x(1, [k, i]));
    return c.has(2) ? m.add(sum, c.x(2, [k])) : sum;
  });
  const dhidden = isBackward && c.aside("dh", all, (c, index) => {
    const m = c.m, dgelu = dot(m, last(c.shape), o => c.dout([...lead(index), o]), o => c.x(3, [o, last(index)]));
    return m.mul(dgelu, geluSlope(m, c.read("h")(index), kind));
  });
  return {hidden, dhidden, kind, width, rows};
}
