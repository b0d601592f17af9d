"use strict";
/* Wrong rules, to replace the right rule of a step: gradient(c, slot, index, asked, right) is the wrong number. They have
   the names of study/mistakes where those have one. `asked` is what the extras say of the mistake: {"rule": name, "input":
   slot, ...}; without "input" the rule is for all inputs of the step. An object has wrong rules of arrays that the op derives,
   {name: (c, index) => ...}, from which the gradients follow.

   The first group fits every step; the names of the others say for which op they are. */

const swapped = index => [...index.slice(0, -2), index[index.length - 1], index[index.length - 2]];

/** Softmax's dx = outer (dout - total), with replaceable parts. */
const wrongSoftmax = ({outer = (c, i) => c.out(i), total = rowSum, inside = (c, i, sum) => c.m.sub(c.dout(i), sum)}) =>
  (c, slot, index) => c.m.mul(outer(c, index), inside(c, index, total(c, index)));

/** Softmax's row sum over other terms. */
const wrongRowSum = rule => ({
  row_sum(c, i) { const {n, at} = row(c); return rule(c, n, k => at(i, k)); },
});

const only = (slot, rule) => (c, i, index, asked, right) =>
  i === slot ? rule(c, index, asked, right) : right(c, i, index);
const lengthsOf = c => ({rows: c.shape[c.shape.length - 2], columns: last(c.shape)});
const at = (index, i, j) => [...index.slice(0, -2), i, j];

const MISTAKES = {
  /* ---- any step ---- */
  "times": (c, slot, index, {factor}, right) => c.m.mul(c.m.number(factor), right(c, slot, index)),
  "sign": (c, slot, index, asked, right) => c.m.neg(right(c, slot, index)),
  "zero": c => c.m.number(0),
  "not transposed": (c, slot, index) => c.dout(index), // of a transpose
  "twice the factor": only(0, (c, index, asked, right) => c.m.mul(right(c, 0, index), c.x(1, index))), // of a * b
  "divided by the factor": only(0, (c, index) => c.m.div(c.dout(index), c.x(1, index))),
  "upstream transposed": (c, slot, index, asked, right) =>
    right(c.with((dout, index) => dout(swapped(index))), slot, index),

  /* ---- softmax ---- */
  "softmax: no rowsum": wrongSoftmax({inside: (c, index) => c.dout(index)}),
  "softmax: diagonal only": wrongSoftmax({total: (c, index) => c.m.mul(c.dout(index), c.out(index))}),
  "softmax: wrong axis": wrongSoftmax({total: (c, index) => {
    const {rows} = lengthsOf(c), column = last(index), i = k => at(index, k, column);
    return c.m.sum(rows, k => c.m.mul(c.dout(i(k)), c.out(i(k))));
  }}),
  "softmax: mean": wrongRowSum((c, n, at) =>
    c.m.div(dot(c.m, n, k => c.dout(at(k)), k => c.out(at(k))), c.m.number(n))),
  "softmax: no upstream in the sum": wrongRowSum((c, n, at) => c.m.sum(n, k => c.out(at(k)))),
  "softmax: no p in the sum": wrongRowSum((c, n, at) => c.m.sum(n, k => c.dout(at(k)))),
  "softmax: sum is added": wrongSoftmax({inside: (c, index, sum) => c.m.add(c.dout(index), sum)}),
  "softmax: no weights": wrongSoftmax({outer: (c, i) => c.m.number(c.m.valueOf(c.out(i)) === 0 ? 0 : 1)}),

  /* ---- matrix products, out = a @ b ---- */
  "matmul: b not transposed": only(0, (c, index) => {
    const [i, k] = index.slice(-2);
    return dot(c.m, last(c.shape), j => c.dout(at(index, i, j)), j => c.x(1, at(index, j, k)));
  }),
  "matmul: a not transposed": only(1, (c, index) => {
    const [k, j] = index.slice(-2);
    return dot(c.m, lengthsOf(c).rows, i => c.x(0, at(index, k, i)), i => c.dout(at(index, i, j)));
  }),
  "matmul: a for b": only(0, (c, index) => { // dout @ a, for out = a @ b^T of two matrices of one shape
    const [i, k] = index.slice(-2);
    return dot(c.m, last(c.shape), j => c.dout(at(index, i, j)), j => c.x(0, at(index, j, k)));
  }),
  "matmul: another factor": only(1, (c, index, {tensor: name}) => { // for a; -inf in it counts as 0
    const [k, j] = index.slice(-2), other = c.valueOf(name), m = c.m;
    const finite = x => Number.isFinite(m.valueOf(x)) ? x : m.number(0);
    return dot(m, lengthsOf(c).rows, i => finite(m.source(other, at(index, i, k))), i => c.dout(at(index, i, j)));
  }),
};
