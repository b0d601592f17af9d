"use strict";
/* The ops of attention, of blocks, and of fused ops spelled out, under the names of minigrad/ops. Of other ops a page shows the
   trace's numbers. Each has its formulas, and rules for ONE number: of the output (`value`), and of the gradient of an input
   (`gradient`). A rule is written in an algebra `m`. With `numbers` it computes; with `terms` it builds the expression of what
   it would compute, which the page writes out. So what is explained is what is computed.

   A tensor is {shape, data}, data a flat Float64Array in C order. A rule gets a context c:

       c.m                     the algebra: add, sub, mul, div, neg, sum(n, k => ...), exp, ...
       c.x(i, index)           a number of input i, broadcast as in NumPy; c.has(i): is there one?
       c.out(index)            a number of the output, in gradient
       c.dout(index)           a number of the output's gradient, in gradient
       c.once(name, shape, rule)   an intermediate array, computed once; terms write it out where it is used
       c.derived(name, kind)   a number of an array that the op declares in `derived`, {name: {shape(c), value(c, index),
                               gradient(c, index)}}; terms use its name, and write it out below, or show its matrix
       c.keep(name, make)      anything that depends on shapes and options only, made once
       c.shapes, c.shape       the shapes of the inputs and of the output; c.options

   A gradient may have the broadcast shape (`gradientShape`): interpreter.js sums it, in one place. */

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

/** The place of an index in C order, which may be an index of a shape that this one broadcasts to. */
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
  if (Math.abs(x) > 6) return Math.sign(x); // to the last digit
  let term = x, total = x; // 2/sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all terms have one sign
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) {
    term *= 2 * x * x / (2 * n + 1);
    total += term;
  }
  return 2 / SQRT_PI * Math.exp(-x * x) * total;
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
  max(n, rule) {
    let largest = -Infinity;
    for (let k = 0; k < n; k++) largest = Math.max(largest, rule(k));
    return largest;
  },
};

/** A term has a kind, `is`, its parts, and its value, computed by `numbers`. */
const term = (is, parts, value, more) => ({is, parts, value, ...more});
const each = (n, rule) => Array.from({length: n}, (_, k) => rule(k));
const terms = {
  number: x => term("number", [], x),
  valueOf: a => a.value,
  source: (t, index) => term("source", [], numbers.source(t, index), {of: t, index: within(t.shape, index)}),
  call: (name, f, ...x) => term("call", x, f(...x.map(terms.valueOf)), {name}),
  sum: (n, rule) => over("sum", each(n, rule)),
  max: (n, rule) => over("max", each(n, rule)),
};
for (const is of ["add", "sub", "mul", "div", "neg", "pow", "exp", "log", "sqrt"]) {
  terms[is] = (...parts) => term(is, parts, numbers[is](...parts.map(terms.valueOf)));
}
const over = (is, parts) => term(is, parts, numbers[is](parts.length, k => parts[k].value));

/** The index in a shape, of an index in a shape that it broadcasts to. */
const within = (shape, index) => unravel(shape, ravel(shape, index));

/* ------------------------------------------------------------------------------------------------ families of ops */

/** Elementwise ops: value(m, ...inputs, c, index), gradients[i](m, dout, ...inputs, c, index). */
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

/** A function f of one number, and its gradient from dout, x and out. */
function unary(name, f, formula, backward, gradient) {
  return elementwise({
    formula: `out = ${formula}`, backward: [`dx = ${backward}`],
    value: (m, x) => name in numbers ? m[name](x) : m.call(name, f, x),
    gradients: [(m, dout, x, c, index) => gradient(m, dout, x, () => c.out(index))],
  });
}

/** Ops that copy: each number of the output is that of x at the place from(c, index, place). */
function moves(op) {
  const uses = c => c.keep("uses", () => { // {place in x: its places in the output}
    const found = new Map();
    for (let place = 0; place < product(c.shape); place++) {
      const source = op.from(c, unravel(c.shape, place), place);
      found.set(source, [...found.get(source) || [], place]);
    }
    return found;
  });
  return {
    names: ["x"],
    ...op,
    value: (c, index) => c.x(0, unravel(c.shapes[0], op.from(c, index, ravel(c.shape, index)))),
    gradient(c, i, index) {
      const places = uses(c).get(ravel(c.shapes[0], index)) || [];
      if (places.length === 1) return c.dout(unravel(c.shape, places[0]));
      return c.m.sum(places.length, k => c.dout(unravel(c.shape, places[k])));
    },
  };
}

const positive = (axis, length) => axis < 0 ? axis + length : axis;

/** Maps between a reduction's indices of the input and of the output. */
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
      into(index, k) { // the k-th that is reduced to out[index]
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

const along = (index, dim, k) => { const moved = index.slice(); moved[dim] = k; return moved; };
const kept = (shape, dim) => along(shape, dim, 1);

/** Ops along one axis: what rules need to walk along it. */
const dimOf = c => positive(c.options.dim ?? -1, c.shapes[0].length);
const row = c => ({dim: dimOf(c), n: c.shapes[0][dimOf(c)], at: (index, k) => along(index, dimOf(c), k)});

const perSoftmax = c => kept(c.shapes[0], dimOf(c));
const rowSum = (c, index) => c.derived("row_sum", "gradient")(row(c).at(index, 0));

/** e^(x - largest) of a row, and their sum. */
function softmaxParts(c) {
  const {dim, n, at} = row(c), m = c.m;
  const power = i => m.exp(m.sub(c.x(0, i), c.derived("largest")(at(i, 0))));
  const total = c.once("total", kept(c.shapes[0], dim), (c, i) => {
    const parts = softmaxParts(c);
    return c.m.sum(n, k => parts.power(at(i, k)));
  });
  return {power, total: i => total(at(i, 0))};
}

const softmaxLargest = {
  shape: perSoftmax,
  value(c, i) { const {n, at} = row(c); return c.m.max(n, k => c.x(0, at(i, k))); },
};

/** The classes of a cross-entropy's rows, and the rows that count. */
const targetsOf = c => c.keep("targets", () => {
  const targets = flatten(c.options.targets), ignored = c.options.ignore_index ?? -100;
  return {targets, counted: [...targets.keys()].filter(i => targets[i] !== ignored)};
});

/** - log p of a row's target; with label smoothing, partly the mean over all classes. */
function lossOfRow(c, i) {
  const m = c.m, {targets, counted} = targetsOf(c), n = last(c.shapes[0]), smoothing = c.options.label_smoothing ?? 0;
  if (!counted.includes(i)) return m.number(0);
  const {total} = softmaxParts(c);
  const logP = j => m.sub(m.sub(c.x(0, [i, j]), c.derived("largest")([i, 0])), m.log(total([i, 0])));
  if (!smoothing) return m.neg(logP(targets[i]));
  const all = m.mul(m.number(smoothing / n), m.sum(n, logP));
  return m.neg(m.add(m.mul(m.number(1 - smoothing), logP(targets[i])), all));
}

function softmaxOf(c, index) {
  const {power, total} = softmaxParts(c);
  return c.m.div(power(index), total(index));
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

/** What x[parts] selects from an x of this shape: {shape, places}. Integers next to arrays are basic, as in the engine. */
function indexed(shape, parts) {
  const isArray = part => Array.isArray(part);
  const arrays = parts.map(part => isArray(part) ? {shape: shapeOf(part), data: flatten(part)} : null);
  const free = shape.length - parts.filter(part => part !== null && part !== "...").length;
  if (free < 0 || flatten(parts).some(part => typeof part === "boolean")) throw new Error("boolean indices are not supported here");

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
      picks.push({axis: axis++, ...array});
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

/** An option that is an array, such as a condition; and one of its elements, broadcast. */
const option = (c, name) => c.keep(name, () => tensor(shapeOf(c.options[name]), flatten(c.options[name])));
const optionAt = (c, name, index) => { const {shape, data} = option(c, name); return data[ravel(shape, index)]; };
const indexOf = c => c.keep("index", () => indexed(c.shapes[0], c.options.index));

/* ------------------------------------------------------------------------------------------------ activations */

const sigmoid = x => 1 / (1 + Math.exp(-x));
const normalBelow = {
  none: x => (1 + erf(x / SQRT_2)) / 2,
  tanh: x => (1 + Math.tanh(SQRT_2_OVER_PI * (x + 0.044715 * x ** 3))) / 2,
};
const normalDensity = {
  none: x => Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI),
  tanh: x => (1 - (2 * normalBelow.tanh(x) - 1) ** 2) / 2 * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x),
};
const gelu = (m, x, kind) => m.mul(x, m.call("Φ", normalBelow[kind], x));
const geluSlope = (m, x, kind) => m.add(m.call("Φ", normalBelow[kind], x), m.mul(x, m.call("φ", normalDensity[kind], x)));
const approximation = c => c.options.approximate ?? "none";

/* ------------------------------------------------------------------------------------------------ matrix products */

/** sum over k of left(k) * right(k), in terms and in numbers */
const dot = (m, n, left, right) => m.sum(n, k => m.mul(left(k), right(k)));
const last = index => index[index.length - 1];
const lead = index => index.slice(0, -1);

/** How the output of a product is indexed: a vector on the left has no row there, and one on the right no column. */
function matrixProduct(c) {
  const [hasRows, hasColumns] = c.shapes.map(shape => shape.length > 1), axes = hasRows + hasColumns;
  return {
    rows: hasRows ? c.shapes[0][c.shapes[0].length - 2] : 1, columns: hasColumns ? last(c.shapes[1]) : 1,
    leading: index => index.slice(0, index.length - axes),
    at: index => ({i: hasRows ? index[index.length - axes] : 0, j: hasColumns ? last(index) : 0}),
    b: (leading, k, j) => c.x(1, hasColumns ? [...leading, k, j] : [k]),
    dout: (leading, i, j) => c.dout([...leading, ...(hasRows ? [i] : []), ...(hasColumns ? [j] : [])]),
  };
}
const rowsOf = shape => ({n: product(lead(shape)), at: (r, i) => [...unravel(lead(shape), r), i]});

/* ------------------------------------------------------------------------------------------------ rows */

const inRow = (i, k) => [...lead(i), k];
const perRow = c => kept(c.shapes[0], c.shapes[0].length - 1);
const meanOf = (c, rule) => { const n = last(c.shapes[0]); return c.m.div(c.m.sum(n, rule), c.m.number(n)); };
const reciprocalRoot = (c, square) => c.m.div(c.m.number(1), c.m.sqrt(c.m.add(square, c.m.number(c.options.eps ?? 1e-5))));

/** Norms, out = x_hat * w + b, where x_hat = (x - mean) * scale; RMS norm has no mean. `derived` are those two. */
function normalising({derived, scale, formula, backward}) {
  const hasMean = "mean" in derived;
  return {
    names: ["x", "w", "b"], formula, backward,
    shape: c => c.shapes[0],
    derived: {
      ...derived,
      x_hat: {
        shape: c => c.shapes[0],
        value(c, i) {
          const x = c.x(0, i), centred = hasMean ? c.m.sub(x, c.derived("mean")(inRow(i, 0))) : x;
          return c.m.mul(centred, c.derived(scale)(inRow(i, 0)));
        },
        gradient: (c, i) => c.has(1) ? c.m.mul(c.dout(i), c.x(1, [last(i)])) : c.dout(i),
      },
      "mean of dx_hat": {shape: perRow, gradient: (c, i) => meanOf(c, k => c.derived("x_hat", "gradient")(inRow(i, k)))},
      "mean of dx_hat x_hat": {
        shape: perRow,
        gradient: (c, i) => meanOf(c, k => c.m.mul(c.derived("x_hat", "gradient")(inRow(i, k)), c.derived("x_hat")(inRow(i, k)))),
      },
    },
    value(c, index) {
      const m = c.m, i = [last(index)], hat = c.derived("x_hat")(index);
      const scaled = c.has(1) ? m.mul(hat, c.x(1, i)) : hat;
      return c.has(2) ? m.add(scaled, c.x(2, i)) : scaled;
    },
    gradient(c, slot, index) {
      const m = c.m;
      if (slot > 0) {
        const all = rowsOf(c.shape), dout = r => c.dout(all.at(r, index[0]));
        return slot === 1 ? dot(m, all.n, dout, r => c.derived("x_hat")(all.at(r, index[0]))) : m.sum(all.n, dout);
      }
      const r = inRow(index, 0), dhat = c.derived("x_hat", "gradient")(index);
      const centred = hasMean ? m.sub(dhat, c.derived("mean of dx_hat", "gradient")(r)) : dhat;
      const along = m.mul(c.derived("x_hat")(index), c.derived("mean of dx_hat x_hat", "gradient")(r));
      return m.mul(c.derived(scale)(r), m.sub(centred, along));
    },
  };
}

/* ------------------------------------------------------------------------------------------------ the table */

const zero = m => m.number(0);
const halfWhereEqual = (m, dout, a, b, isLess) => {
  const [x, y] = [m.valueOf(a), m.valueOf(b)];
  return isLess(x, y) ? zero(m) : x === y ? m.mul(m.number(0.5), dout) : dout;
};
const larger = (a, b) => Number.isNaN(a) || Number.isNaN(b) ? NaN : Math.max(a, b);

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

  Exp: unary("exp", Math.exp, "e^x", "dout * out", (m, dout, x, out) => m.mul(dout, out())),
  Log: unary("log", Math.log, "log(x)", "dout / x", (m, dout, x) => m.div(dout, x)),
  Sqrt: unary("sqrt", Math.sqrt, "sqrt(x)", "dout / (2 * out)",
    (m, dout, x, out) => m.div(dout, m.mul(m.number(2), out()))),
  Tanh: unary("tanh", Math.tanh, "tanh(x)", "dout * (1 - out^2)",
    (m, dout, x, out) => m.mul(dout, m.sub(m.number(1), m.pow(out(), m.number(2))))),
  Sigmoid: unary("sigmoid", sigmoid, "1 / (1 + e^(- x))", "dout * out * (1 - out)",
    (m, dout, x, out) => m.mul(dout, m.mul(out(), m.sub(m.number(1), out())))),
  Cast: elementwise({
    formula: "out = x", backward: ["dx = dout"], value: (m, x) => x, gradients: [(m, dout) => dout],
  }),
  Erfc: unary("erfc", x => 1 - erf(x), "1 - erf(x)", "- dout * 2 / sqrt(pi) * e^(- x^2)",
    (m, dout, x) => m.mul(dout, m.call("erfc'", x => -2 / SQRT_PI * Math.exp(-x * x), x))),
  Erf: unary("erf", erf, "erf(x)", "dout * 2 / sqrt(pi) * e^(- x^2)",
    (m, dout, x) => m.mul(dout, m.call("erf'", x => 2 / SQRT_PI * Math.exp(-x * x), x))),

  Relu: elementwise({
    formula: "out = max(x, 0)", backward: ["dx = dout * [x > 0]"],
    value: (m, x) => m.call("relu", x => larger(x, 0), x),
    gradients: [(m, dout, x) => m.valueOf(x) > 0 ? dout : zero(m)],
  }),
  Gelu: elementwise({
    formula: "out = x * Phi(x)", backward: ["dx = dout * (Phi(x) + x * phi(x))"],
    value: (m, x, c) => gelu(m, x, approximation(c)),
    gradients: [(m, dout, x, c) => m.mul(dout, geluSlope(m, x, approximation(c)))],
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

  Softmax: {
    names: ["x"],
    formula: "out_i = e^(x_i) / sum_k e^(x_k)", backward: ["dx_i = out_i (dout_i - sum_k dout_k out_k)"],
    shape: c => c.shapes[0],
    value: (c, index) => c.shown.some(t => t.derived === "lse")
      ? c.m.exp(c.m.sub(c.x(0, index), c.derived("lse")(row(c).at(index, 0)))) : softmaxOf(c, index),
    gradient(c, i, index) {
      return c.m.mul(c.out(index), c.m.sub(c.dout(index), rowSum(c, index)));
    },
    derived: {
      largest: softmaxLargest,
      lse: { // the logarithm of the sum of e^x, by which flash attention computes the softmax again
        shape: perSoftmax,
        value: (c, i) => c.m.add(c.derived("largest")(i), c.m.log(softmaxParts(c).total(i))),
      },
      row_sum: { // sum of dout * out; where another op computes o = out @ v, option row_sum_from = "o" sums do * o, its equal
        shape: perSoftmax,
        gradient(c, i) {
          const {n, at} = row(c), m = c.m, name = c.options.row_sum_from;
          if (!name) return dot(m, n, k => c.dout(at(i, k)), k => c.out(at(i, k)));
          const o = c.valueOf(name), dO = c.gradientOf(name);
          return dot(m, last(o.shape), d => m.source(dO, inRow(i, d)), d => m.source(o, inRow(i, d)));
        },
      },
    },
  },

  MatMul: {
    names: ["a", "b"],
    formula: "out_ij = sum_k a_ik b_kj", backward: ["da_ik = sum_j dout_ij b_kj", "db_kj = sum_i a_ik dout_ij"],
    shape: ({shapes: [a, b]}) => [
      ...broadcast(a.slice(0, -2), b.slice(0, -2)), ...a.slice(-2, -1), ...(b.length > 1 ? [last(b)] : []),
    ],
    gradientShape: (c, i) => [...matrixProduct(c).leading(c.shape), ...c.shapes[i].slice(-2)],
    value(c, index) {
      const {leading, at, b} = matrixProduct(c), before = leading(index), {i, j} = at(index);
      return dot(c.m, last(c.shapes[0]), k => c.x(0, [...before, i, k]), k => b(before, k, j));
    },
    gradient(c, slot, index) {
      const {rows, columns, dout, b} = matrixProduct(c), isVector = c.shapes[slot].length === 1;
      const before = index.slice(0, isVector ? -1 : -2), [i, j] = index.slice(-2);
      if (slot === 0) return dot(c.m, columns, n => dout(before, isVector ? 0 : i, n), n => b(before, last(index), n));
      const [k, column] = isVector ? [last(index), 0] : [i, j];
      return dot(c.m, rows, n => c.x(0, [...before, n, k]), n => dout(before, n, column));
    },
  },
  Linear: {
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
  },

  LayerNorm: normalising({
    formula: ["out_i = x_hat_i * w_i + b_i", "x_hat_i = (x_i - mean) * rstd,  rstd = 1 / sqrt(variance + eps)"],
    backward: [
      ["dx_i = rstd * (dx_hat_i - mean(dx_hat) - x_hat_i * mean(dx_hat x_hat))", "dx_hat_i = dout_i w_i"],
      "dw_i = sum dout_i x_hat_i", "db_i = sum dout_i",
    ],
    scale: "rstd",
    derived: {
      mean: {shape: perRow, value: (c, i) => meanOf(c, k => c.x(0, inRow(i, k)))},
      rstd: {
        shape: perRow,
        value(c, i) {
          const m = c.m, mean = c.derived("mean")(i);
          return reciprocalRoot(c, meanOf(c, k => m.pow(m.sub(c.x(0, inRow(i, k)), mean), m.number(2))));
        },
      },
    },
  }),
  RMSNorm: normalising({
    formula: ["out_i = x_hat_i * w_i", "x_hat_i = x_i * rrms,  rrms = 1 / sqrt(mean(x^2) + eps)"],
    backward: [
      ["dx_i = rrms * (dx_hat_i - x_hat_i * mean(dx_hat x_hat))", "dx_hat_i = dout_i w_i"], "dw_i = sum dout_i x_hat_i",
    ],
    scale: "rrms",
    derived: {
      "mean square": {shape: perRow, value: (c, i) => meanOf(c, k => c.m.pow(c.x(0, inRow(i, k)), c.m.number(2)))},
      rrms: {shape: perRow, value: (c, i) => reciprocalRoot(c, c.derived("mean square")(i))},
    },
  }),

  CrossEntropy: {
    names: ["x"],
    formula: ["out = - sum_i log p_{i y_i} / N", "p = softmax(x)"], backward: ["dx_ij = dout (p_ij - [j = y_i]) / N"],
    shape: c => c.options.reduction === "none" ? c.shapes[0].slice(0, -1) : [],
    derived: {
      largest: softmaxLargest,
      probabilities: {shape: c => c.shapes[0], value: softmaxOf},
    },
    value(c, index) {
      const m = c.m, counted = targetsOf(c).counted;
      if (c.options.reduction === "none") return lossOfRow(c, index[0]);
      const total = m.sum(counted.length, k => lossOfRow(c, counted[k]));
      return c.options.reduction === "sum" ? total : m.div(total, m.number(counted.length));
    },
    gradient(c, slot, [i, j]) {
      const m = c.m, {targets, counted} = targetsOf(c), {reduction, label_smoothing: smoothing = 0} = c.options;
      if (!counted.includes(i)) return zero(m);
      const wanted = (j === targets[i] ? 1 - smoothing : 0) + smoothing / last(c.shapes[0]);
      const dout = c.dout(reduction === "none" ? [i] : []);
      const dloss = (reduction ?? "mean") === "mean" ? m.div(dout, m.number(counted.length)) : dout;
      return m.mul(dloss, m.sub(c.derived("probabilities")([i, j]), m.number(wanted)));
    },
  },

  Reshape: moves({
    formula: "out = x in another shape", backward: ["dx = dout in the shape of x"],
    shape(c) {
      const n = product(c.shapes[0]), known = product([c.options.shape].flat().filter(length => length !== -1));
      return [c.options.shape].flat().map(length => length === -1 ? n / known : length);
    },
    from: (c, index, place) => place,
  }),
  Permute: moves({
    formula: "out = x with its axes in another order", backward: ["dx = dout with its axes back in order"],
    shape: c => c.options.axes.map(axis => c.shapes[0][axis]),
    from: (c, index) => {
      const source = [];
      c.options.axes.forEach((axis, d) => { source[axis] = index[d]; });
      return ravel(c.shapes[0], source);
    },
  }),
  Expand: moves({
    formula: "out = x repeated", backward: ["dx = sum of dout over the repetitions"],
    shape: c => c.options.shape,
    from: (c, index) => ravel(c.shapes[0], index),
  }),
  Index: moves({
    formula: "out = x[index]", backward: ["dx[index] += dout"],
    shape: c => indexOf(c).shape,
    from: (c, index, place) => indexOf(c).places[place],
  }),
};

/** Reductions that choose one of the numbers. */
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
