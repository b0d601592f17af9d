/* What the trace's numbers are made of: a table of nodes, each after those that it is made of. Each is a function below of other
   nodes, a number, an input, or a cell: a number of a tensor, which is the node that it is of. */

const product = shape => shape.reduce((n, length) => n * length, 1);
const each = (n, rule) => Array.from({length: n}, (_, k) => rule(k));
const last = index => index[index.length - 1];
const lead = index => index.slice(0, -1);

/** The index of a place in C order. */
const unravel = (shape, place) => shape.map((length, d) => Math.floor(place / product(shape.slice(d + 1))) % length);

/** The place of an index in C order. */
const ravel = (shape, index) => shape.reduce((place, length, d) => place * length + index[d], 0);

/* ------------------------------------------------------------------------------------------------ functions */

const isNaNIn = (a, b) => Number.isNaN(a) || Number.isNaN(b);
const SQRT_PI = Math.sqrt(Math.PI);

function erf(x) {
  if (Math.abs(x) > 2) return Math.sign(x) * (1 - erfc(Math.abs(x)));
  let term = x, total = x; // 2/sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...): all terms have one sign
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(total); n++) {
    term *= 2 * x * x / (2 * n + 1);
    total += term;
  }
  return 2 / SQRT_PI * Math.exp(-x * x) * total;
}

function erfc(x) {
  if (!(x > 2)) return 1 - erf(x);
  let below = x; // e^(-x^2) / sqrt(pi) / (x + 1/2 / (x + 2/2 / (x + 3/2 / ...)))
  for (let n = 120; n > 0; n--) below = x + n / 2 / below;
  return Math.exp(-x * x) / SQRT_PI / below;
}

/** Half to even, as NumPy rounds. */
function rint(x) {
  const below = Math.floor(x), rest = x - below;
  return rest < 0.5 || rest === 0.5 && below % 2 === 0 ? below : below + 1;
}

/** NumPy's functions, by NumPy's names. */
const OF_NODES = {
  add: (a, b) => a + b, subtract: (a, b) => a - b, multiply: (a, b) => a * b, divide: (a, b) => a / b,
  negative: a => -a, square: a => a * a, power: (a, b) => a ** b, reciprocal: a => 1 / a,
  floor_divide: (a, b) => Math.floor(a / b), remainder: (a, b) => a - b * Math.floor(a / b),
  exp: Math.exp, expm1: Math.expm1, log: Math.log, log1p: Math.log1p, sqrt: Math.sqrt, sin: Math.sin, cos: Math.cos,
  tanh: Math.tanh, erf, erfc, absolute: Math.abs, sign: Math.sign, floor: Math.floor, ceil: Math.ceil, trunc: Math.trunc, rint,
  maximum: Math.max, minimum: Math.min, // NaN if one is
  logaddexp: (a, b) => isNaNIn(a, b) ? NaN : a === b ? a + Math.LN2 : Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b))),
  greater: (a, b) => a > b, greater_equal: (a, b) => a >= b, less: (a, b) => a < b, less_equal: (a, b) => a <= b,
  equal: (a, b) => a === b, not_equal: (a, b) => a !== b, isfinite: Number.isFinite, isnan: Number.isNaN,
  isinf: a => Math.abs(a) === Infinity, bitwise_and: (a, b) => a && b, bitwise_or: (a, b) => a || b, invert: a => !a,
  logical_not: a => !a, where: (condition, a, b) => condition ? a : b,
};

/** Of any number of nodes, one after another: [where it begins, the function of two]. */
const REDUCED = {adds: [0, OF_NODES.add], maximums: [-Infinity, Math.max], minimums: [Infinity, Math.min]};

/* ------------------------------------------------------------------------------------------------ the table */

class Nodes {
  /** `nodes` are runs of nodes of one function: its number, how many nodes, of how many others each is, how far before the first
      those are, and how much further on they are for each next one. `numbers` are those of nodes that are numbers, in order. */
  constructor({functions, nodes, numbers}) {
    Object.assign(this, {names: [], parts: [], first: []});
    for (let i = 0, next = 0; i < nodes.length;) {
      const [number, count, arity] = nodes.slice(i, i += 3), start = this.names.length, name = functions[number];
      const before = nodes.slice(i, i += arity), steps = count > 1 ? nodes.slice(i, i += arity) : [];
      for (let k = 0; k < count; k++) {
        this.add(name, before.map((back, part) => start - back + k * (steps[part] ?? 0)), name === "number" ? Number(numbers[next++]) : 0);
      }
    }
  }

  get length() { return this.names.length; }

  /** Another node; its number. */
  add(name, parts, number = 0) {
    this.parts.push(parts);
    this.first.push(number);
    return this.names.push(name) - 1;
  }

  /** Nodes and what they are made of, each after its parts; of `choices`, 0 or 1 by node, only what is chosen. */
  ordered(nodes, choices) {
    const seen = new Set(), found = [];
    const visit = id => {
      if (seen.has(id)) return;
      const [condition, a, b] = this.parts[id];
      seen.add(id);
      (this.names[id] === "where" && choices.has(condition) ? [condition, choices.get(condition) ? a : b] : this.parts[id]).forEach(visit);
      found.push(id);
    };
    nodes.forEach(visit);
    return found;
  }

  /** The numbers of nodes, by default of all, where `given` are those of inputs, and of cells that are held fixed. In several
      lanes each node has as many numbers, one after another. */
  evaluate(given, nodes = this.names.keys(), lanes = 1) {
    const found = new Float64Array(this.length * lanes);
    for (const id of nodes) {
      const name = this.names[id], parts = this.parts[id], start = id * lanes, end = start + lanes;
      const [first, reduce] = REDUCED[name] || [], of = OF_NODES[name];
      if (given.has(id)) {
        const x = given.get(id);
        if (x.length) found.set(x, start); else found.fill(x, start, end);
      } else if (name === "cell") found.copyWithin(start, parts[0] * lanes, (parts[0] + 1) * lanes);
      else if (reduce) {
        found.fill(first, start, end);
        for (const part of parts) for (let k = 0; k < lanes; k++) found[start + k] = reduce(found[start + k], found[part * lanes + k]);
      } else if (parts.length) {
        const [a, b = a, c = a] = parts.map(part => part * lanes);
        for (let k = 0; k < lanes; k++) found[start + k] = of(found[a + k], found[b + k], found[c + k]);
      } else found.fill(name === "number" ? this.first[id] : NaN, start, end);
    }
    return found;
  }
}

/* ------------------------------------------------------------------------------------------------ terms */

/** A term has a kind, `is`, its parts, and its value. */
const term = (is, parts, value, more) => ({is, parts, value, ...more});
const sumOf = parts => term("sum", parts, parts.reduce((total, part) => total + part.value, 0));
const AS_TERMS = { // the terms that are written in a way of their own
  add: "add", subtract: "sub", multiply: "mul", divide: "div", negative: "neg", power: "pow", exp: "exp", sqrt: "sqrt",
  adds: "sum", maximums: "max", maximum: "max", minimum: "min", minimums: "min", absolute: "abs",
};
