"use strict";
/* Wrong rules of gradients, to be put in place of a step's right one, under the names of study/mistakes where
   those have one. gradient(c, slot, index, asked, right): the wrong number, or undefined where the right one stands.
   `asked` is what the extras say of it: {"rule": name, "input": slot, ...}; without "input" it is for all inputs of the step.

   The first group fits every step; the others say in their name which op's step they are for. */

const swapped = index => [...index.slice(0, -2), index[index.length - 1], index[index.length - 2]];

/** Softmax's dx = outer (dout - total of product), its parts to be exchanged. */
function wrongSoftmax({outer, total, product: of, after = (m, dx) => dx, inside}) {
  return (c, slot, index) => {
    const {n, at} = row(c), m = c.m;
    const sum = k => (of || ((c, i) => c.m.mul(c.dout(i), c.out(i))))(c, at(index, k));
    const subtracted = total ? total(c, index, sum, n) : m.sum(n, sum);
    const difference = inside ? inside(c, index, subtracted) : m.sub(c.dout(index), subtracted);
    return after(m, m.mul((outer || ((c, i) => c.out(i)))(c, index), difference));
  };
}

/** Layer norm's dx = rstd (scaled - shift - h stretch), its parts to be exchanged. */
function wrongLayerNorm({shift = true, stretch = true, weight = true, power = 1, divisor = n => n, end = false}) {
  return (c, slot, index) => {
    if (slot > 0) return undefined;
    const {n, at, hat} = normalised(c), m = c.m;
    const scaled = i => weight && c.has(1) ? m.mul(c.dout(i), c.x(1, [last(i)])) : c.dout(i);
    let dx = scaled(index);
    if (shift) dx = m.sub(dx, m.div(m.sum(n, k => scaled(at(index, k))), m.number(divisor(n, "shift"))));
    if (stretch) {
      const sum = dot(m, n, k => scaled(at(index, k)), k => hat(c, at(index, k)));
      dx = m.sub(dx, m.mul(hat(c, index), m.div(sum, m.number(divisor(n, "stretch")))));
    }
    const rstd = c.read("rstd")(at(index, 0));
    for (let i = 0; i < power; i++) dx = m.mul(rstd, dx);
    return end && c.has(1) ? m.mul(dx, c.x(1, [last(index)])) : dx;
  };
}

const only = (slot, rule) => (c, i, index, asked, right) => i === slot ? rule(c, index, asked, right) : undefined;
const lengthsOf = c => ({rows: c.shape[c.shape.length - 2], columns: last(c.shape)});
const at = (index, i, j) => [...index.slice(0, -2), i, j];

const MISTAKES = {
  /* ---- any step ---- */
  "times": {gradient: (c, slot, index, {factor}, right) => c.m.mul(c.m.number(factor), right(c, slot, index))},
  "sign": {gradient: (c, slot, index, asked, right) => c.m.neg(right(c, slot, index))},
  "zero": {gradient: c => c.m.number(0)},
  "not transposed": {gradient: (c, slot, index) => c.dout(index)}, // of a transpose
  "twice the factor": {gradient: only(0, (c, index, asked, right) => c.m.mul(right(c, 0, index), c.x(1, index)))}, // of a * b
  "divided by the factor": {gradient: only(0, (c, index) => c.m.div(c.dout(index), c.x(1, index)))},
  "upstream transposed": {gradient: (c, slot, index, asked, right) =>
    right(c.with((dout, index) => dout(swapped(index))), slot, index)},
  "gradient transposed": {gradient: (c, slot, index, asked, right) => right(c, slot, swapped(index))},

  /* ---- softmax ---- */
  "softmax: no rowsum": {gradient: wrongSoftmax({inside: (c, index) => c.dout(index)})},
  "softmax: diagonal only": {gradient: wrongSoftmax({total: (c, index) => c.m.mul(c.dout(index), c.out(index))})},
  "softmax: wrong axis": {gradient: wrongSoftmax({total: (c, index) => {
    const {rows} = lengthsOf(c), column = last(index), i = k => at(index, k, column);
    return c.m.sum(rows, k => c.m.mul(c.dout(i(k)), c.out(i(k))));
  }})},
  "softmax: mean": {gradient: wrongSoftmax({total: (c, index, sum, n) => c.m.div(c.m.sum(n, sum), c.m.number(n))})},
  "softmax: no upstream in the sum": {gradient: wrongSoftmax({product: (c, i) => c.out(i)})},
  "softmax: no p in the sum": {gradient: (c, slot, index) => {
    const {n, at} = row(c), m = c.m;
    return m.sub(m.mul(c.out(index), c.dout(index)), m.mul(c.out(index), m.sum(n, k => c.dout(at(index, k)))));
  }},
  "softmax: of x": {gradient: (c, slot, index) => {
    const {n, at} = row(c), m = c.m;
    const rowsum = m.sum(n, k => m.mul(c.dout(at(index, k)), c.out(at(index, k))));
    return m.sub(m.mul(c.x(0, index), c.dout(index)), m.mul(c.out(index), rowsum));
  }},
  "softmax: sum is added": {gradient: wrongSoftmax({inside: (c, index, sum) => c.m.add(c.dout(index), sum)})},
  "softmax: no weights": {gradient: wrongSoftmax({outer: (c, i) => c.m.number(c.m.valueOf(c.out(i)) === 0 ? 0 : 1)})},

  /* ---- matrix products, out = a @ b ---- */
  "matmul: b not transposed": {gradient: only(0, (c, index) => {
    const [i, k] = index.slice(-2);
    return dot(c.m, last(c.shape), j => c.dout(at(index, i, j)), j => c.x(1, at(index, j, k)));
  })},
  "matmul: a not transposed": {gradient: only(1, (c, index) => {
    const [k, j] = index.slice(-2);
    return dot(c.m, lengthsOf(c).rows, i => c.x(0, at(index, k, i)), i => c.dout(at(index, i, j)));
  })},
  "matmul: wrong side": {gradient: only(0, (c, index) => {
    const [i, k] = index.slice(-2);
    return dot(c.m, lengthsOf(c).rows, n => c.x(1, at(index, n, i)), n => c.dout(at(index, n, k)));
  })},
  "matmul: wrong side for b": {gradient: only(1, (c, index) => {
    const [k, j] = index.slice(-2);
    return dot(c.m, last(c.shape), n => c.dout(at(index, k, n)), n => c.x(0, at(index, j, n)));
  })},
  "matmul: result transposed": {gradient: only(1, (c, index, asked, right) => right(c, 1, swapped(index)))},
  "matmul: upstream transposed": {gradient: only(0, (c, index, asked, right) =>
    right(c.with((dout, index) => dout(swapped(index))), 0, index))},
  "matmul: upstream of b transposed": {gradient: only(1, (c, index, asked, right) =>
    right(c.with((dout, index) => dout(swapped(index))), 1, index))},
  "matmul: a for b": {gradient: only(0, (c, index) => { // dout @ a, for out = a @ b^T of two matrices of one shape
    const [i, k] = index.slice(-2);
    return dot(c.m, last(c.shape), j => c.dout(at(index, i, j)), j => c.x(0, at(index, j, k)));
  })},
  "matmul: another factor": {gradient: only(1, (c, index, {tensor: name}) => { // for a; -inf in it counts as 0
    const [k, j] = index.slice(-2), other = c.valueOf(name), m = c.m;
    const finite = x => Number.isFinite(m.valueOf(x)) ? x : m.number(0);
    return dot(m, lengthsOf(c).rows, i => finite(m.source(other, at(index, i, k))), i => c.dout(at(index, i, j)));
  })},

  /* ---- linear ---- */
  "linear: weight transposed": {gradient: only(0, (c, index) =>
    dot(c.m, last(c.shape), o => c.dout([...lead(index), o]), o => c.x(1, [last(index), o])))},
  "linear: weight's gradient transposed": {gradient: only(1, (c, index, asked, right) => right(c, 1, swapped(index)))},
  "linear: weight's gradient averaged": {gradient: only(1, (c, index, asked, right) =>
    c.m.div(right(c, 1, index), c.m.number(rowsOf(c.shapes[0]).n)))},
  "linear: bias averaged": {gradient: only(2, (c, index, asked, right) =>
    c.m.div(right(c, 2, index), c.m.number(rowsOf(c.shapes[0]).n)))},
  "linear: bias not summed": {gradient: only(2, (c, index) => c.dout(rowsOf(c.shapes[0]).at(0, index[0])))},

  /* ---- layer norm ---- */
  "layer_norm: no mean term": {gradient: wrongLayerNorm({shift: false})},
  "layer_norm: no x_hat term": {gradient: wrongLayerNorm({stretch: false})},
  "layer_norm: statistics constant": {gradient: wrongLayerNorm({shift: false, stretch: false})},
  "layer_norm: ddof 1": {gradient: wrongLayerNorm({divisor: (n, part) => part === "stretch" ? n - 1 : n})},
  "layer_norm: sums for means": {gradient: wrongLayerNorm({divisor: () => 1})},
  "layer_norm: no weight": {gradient: wrongLayerNorm({weight: false})},
  "layer_norm: weight at the end": {gradient: wrongLayerNorm({weight: false, end: true})},
  "layer_norm: no rstd": {gradient: wrongLayerNorm({power: 0})},
  "layer_norm: rstd squared": {gradient: wrongLayerNorm({power: 2})},
  "layer_norm: gain of x": {gradient: only(1, (c, index) => {
    const rows = rowsOf(c.shape);
    return dot(c.m, rows.n, r => c.dout(rows.at(r, index[0])), r => c.x(0, rows.at(r, index[0])));
  })},
  "layer_norm: gain without x_hat": {gradient: only(1, (c, index) => {
    const rows = rowsOf(c.shape);
    return c.m.sum(rows.n, r => c.dout(rows.at(r, index[0])));
  })},

  /* ---- gelu, the embedding, the loss ---- */
  "gelu: product rule": {gradient: (c, slot, index) =>
    c.m.mul(c.dout(index), c.m.call("P", normalBelow[approximation(c)], c.x(0, index)))}, // x P' is missing
  "gelu: of relu": {gradient: (c, slot, index) => c.m.valueOf(c.x(0, index)) > 0 ? c.dout(index) : c.m.number(0)},
  "embedding: overwrites": {gradient: only(0, (c, [id, i]) => {
    const {shape, data} = option(c, "ids"), place = data.lastIndexOf(id);
    return place < 0 ? c.m.number(0) : c.dout([...unravel(shape, place), i]);
  })},
  "embedding: averages": {gradient: only(0, (c, index, asked, right) =>
    c.m.div(right(c, 0, index), c.m.number(Math.max(1, option(c, "ids").data.filter(id => id === index[0]).length))))},
  "cross_entropy: no mean": {gradient: (c, slot, index, asked, right) =>
    c.m.mul(right(c, slot, index), c.m.number(crossEntropy(c).counted))},
  "cross_entropy: no target": {gradient: (c, slot, [r, k]) => {
    const e = crossEntropy(c), m = c.m;
    return e.counts(r) ? m.mul(m.div(c.dout([]), m.number(e.counted)), m.exp(e.logP(c, r, k))) : m.number(0);
  }},
};
