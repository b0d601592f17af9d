"use strict";
/* Runs a trace by the rules of ops.js: forward from its inputs, backward from where its gradients start. */

/** What a rule sees of one step; see ops.js. Numbers and terms of a step share its intermediate arrays. */
class Context {
  constructor(m, step, inputs, options, kept, arrays, plain) {
    Object.assign(this, {m, step, inputs, options, kept, arrays, plain: plain || this, shown: step.derived, wrong: {}});
    this.shapes = inputs.map(input => input ? input.shape : []);
  }

  get terms() {
    const {step, inputs, options, kept, arrays, ...rest} = this;
    return Object.assign(new Context(terms, step, inputs, options, kept, arrays, this), rest, {m: terms, plain: this});
  }

  /** The same step with another upstream gradient. */
  with(dout) {
    const c = new Context(this.m, this.step, this.inputs, this.options, this.kept, new Map());
    const arriving = this.dout.bind(this);
    Object.assign(c, {output: this.output, shape: this.shape, shown: [], dout: index => dout(arriving, index)});
    if (this.m === terms) c.plain = this.plain.with(dout);
    return c;
  }

  has(i) { return Boolean(this.inputs[i]); }
  x(i, index) { return this.m.source(this.inputs[i], index); }
  out(index) { return this.m.source(this.output, index); }
  dout(index) { return this.m.source(this.gradient, index); }

  keep(name, make) {
    if (!this.kept.has(name)) this.kept.set(name, make());
    return this.kept.get(name);
  }

  once(name, shape, rule) {
    return this.m === numbers ? this.numbersOf(name, shape, rule) : index => rule(this, within(shape, index));
  }

  derived(name, kind = "value") {
    const rule = this.ruleOf(name, kind), read = this.plain.numbersOf(`${kind} ${name}`, this.shapeOf(name), rule);
    if (this.m === numbers) return read;
    const shown = this.shown.find(t => t.derived === name);
    if (shown) return index => term("source", [], read(index), {of: {name: shown.name, kind}, index});
    return index => term("aside", [], read(index), {name, index, written: () => rule(this, index)});
  }

  shapeOf(name) { return this.step.op.derived[name].shape(this); }
  ruleOf(name, kind) { return this.wrong[name] || this.step.op.derived[name][kind]; }

  numbersOf(name, shape, rule) {
    if (!this.arrays.has(name)) {
      const data = new Float64Array(product(shape));
      this.arrays.set(name, data); // first, since rules may ask for it again
      for (let place = 0; place < data.length; place++) data[place] = rule(this, unravel(shape, place));
    }
    return index => this.arrays.get(name)[ravel(shape, index)];
  }
}

const asNumbers = nested => Float64Array.from(flatten(nested), Number);

const SUMS = new Set(["Add", "Sub", "Sum", "Mean"]);

/** A trace, and `derives`, {step: {what its op derives: its name as a tensor}}, of arrays to be tensors themselves. */
class Computation {
  constructor(trace, derives = {}) {
    this.tensors = new Map();
    for (const t of trace.tensors) {
      this.tensors.set(t.name, {
        name: t.name, shape: t.shape, kind: t.kind, dtype: t.dtype, uses: [], step: null,
        value: asNumbers(t.value), gradient: t.gradient === null ? null : asNumbers(t.gradient),
      });
    }
    this.steps = trace.steps.map((step, number) => ({
      ...step, number, op: OPS[step.op], opName: step.op, kept: new Map(), problem: null, derived: [],
      inputs: step.inputs.map(input => "tensor" in input ? this.tensors.get(input.tensor) : this.constant(input.constant)),
    }));
    for (const step of this.steps) {
      step.output = this.tensors.get(step.output);
      step.output.step = step;
      step.sent = step.inputs.map((input, i) => {
        const sent = step.gradients[i] ?? null;
        if (sent !== null) input.uses.push({step, slot: i});
        return sent === "all" ? input.gradient : sent === null ? null : asNumbers(sent);
      });
    }
    /* Where backward starts: gradients that no step sends. */
    this.seeds = [...this.tensors.values()].filter(t => t.gradient && !t.uses.length && t.step);
    this.asTraced = this.tracedPass();
    for (const step of this.steps) this.addDerived(step, derives[step.output.name] || {});
    this.steps.forEach(step => { step.problem = this.differs(step); });
    this.isClosed = this.steps.every(step => !step.problem);
  }

  constant(value) {
    return value === null ? null : {name: null, shape: shapeOf(value), value: asNumbers(value), uses: []};
  }

  /** The trace's own numbers as a pass. */
  tracedPass() {
    const pass = {values: new Map(), gradients: new Map(), contexts: [], back: [], sent: this.steps.map(step => step.sent)};
    pass.readFrom = pass;
    for (const t of this.tensors.values()) {
      pass.values.set(t.name, this.label(t, "value", t.value));
      if (t.gradient) pass.gradients.set(t.name, this.label(t, "gradient", t.gradient));
    }
    for (const step of this.steps) {
      if (!step.op) continue;
      pass.contexts[step.number] = this.context(step, pass, {});
      Object.assign(pass.contexts[step.number], {output: pass.values.get(step.output.name), shape: step.output.shape});
    }
    return pass;
  }

  /** Make tensors of arrays that a step's op derives. They have values, a gradient, or both. */
  addDerived(step, called) {
    const pass = this.asTraced, c = pass.contexts[step.number];
    step.derived = Object.entries(called).map(([key, name]) => (
      {name, shape: c.shapeOf(key), kind: "derived", derived: key, dtype: "float64", uses: [], step}));
    if (!step.derived.length) return;
    c.shown = step.derived;
    this.derive(pass, step, c, "value");
    this.backwardContext(pass, step); // derives gradients
    for (const t of step.derived) {
      for (const kind of ["value", "gradient"]) t[kind] = (pass[`${kind}s`].get(t.name) || {data: null}).data;
      this.tensors.set(t.name, t);
    }
  }

  /** The arrays of one kind that a step derives, as tensors of a pass. */
  derive(pass, step, c, kind) {
    for (const t of step.derived) {
      if (!step.op.derived[t.derived][kind]) continue;
      const read = c.derived(t.derived, kind);
      const data = Float64Array.from({length: product(t.shape)}, (_, place) => read(unravel(t.shape, place)));
      pass[`${kind}s`].set(t.name, this.label(t, kind, data));
    }
  }

  label(t, kind, data) { return {name: t.name, kind, shape: t.shape, data}; }

  /** Why the page cannot use a step's rule; null if the rule gives the trace's numbers. */
  differs(step) {
    if (!step.op) return `the page does not know the op ${step.opName}`;
    const isExact = [step.output, ...this.inputsOf(step)].every(t => t.dtype !== "float32");
    const largest = numbers => Math.max(0, ...numbers.filter(Number.isFinite).map(Math.abs));
    // `added` is the size of what was added: where terms cancel, their rounding remains.
    const isClose = (found, expected, added) => {
      const scale = Math.max(1e-300, largest(expected), added / 10) * (isExact ? 1e-8 : 1e-4);
      const rounded = isExact ? x => x : Math.fround; // large numbers overflow in float32
      return found.length === expected.length && found.map(rounded).every(
        (x, i) => Object.is(x, expected[i]) || x === expected[i] || Math.abs(x - expected[i]) <= scale);
    };
    const added = SUMS.has(step.opName) ? Math.max(0, ...this.inputsOf(step).map(t => largest(t.value))) : 0;
    const arriving = largest(step.output.gradient || []);
    try {
      const output = this.run(step, this.context(step, this.asTraced, {}));
      if (`${output.shape}` !== `${step.output.shape}` || !isClose(output.data, step.output.value, added)) {
        return `the page computes a different ${step.opName}`;
      }
      for (const [i, sent] of step.sent.entries()) {
        if (!sent) continue;
        const c = this.backwardContext(this.asTraced, step);
        if (!isClose(this.send(step, c, i, null), sent, arriving)) {
          return `the page computes a different gradient of ${step.opName}`;
        }
      }
    } catch (error) {
      return `the page cannot compute this ${step.opName} (${error.message})`;
    }
    return null;
  }

  /** The steps that a tensor, or a step, leads to. */
  after(name) {
    const reached = new Set([name]), found = new Set();
    for (const step of this.steps) {
      if (step.output.name === name || step.inputs.some(input => input && reached.has(input.name))) {
        reached.add(step.output.name);
        found.add(step);
      }
    }
    return found;
  }

  /** A step that could not follow if a tensor, or a step (by its output), changed; null if there is none. */
  obstacle(name) {
    if (this.isClosed) return null;
    const changed = this.after(name);
    for (const step of this.steps) {
      if (!step.problem) continue;
      const passes = step.sent.some(Boolean);
      const meets = passes && [...this.after(step.output.name)].some(other => changed.has(other));
      if (changed.has(step) || meets) return step;
    }
    return null;
  }

  /* ---------------------------------------------------------------------------------------------- forward */

  context(step, pass, sets) {
    const constants = (sets.constants || new Map()).get(step.output.name) || {};
    const inputs = step.inputs.map((input, i) => {
      if (input && input.name !== null) return pass.values.get(input.name);
      const constant = i in constants ? this.constant(constants[i]) : input;
      return constant && {name: null, kind: "value", shape: constant.shape, data: constant.value};
    });
    const options = (sets.options || new Map()).get(step.output.name);
    const c = new Context(numbers, step, inputs, {...step.options, ...options}, options ? new Map() : step.kept, new Map());
    c.valueOf = name => pass.values.get(name);
    return c;
  }

  run(step, c) {
    c.shape = product(step.output.shape) ? step.op.shape(c) : step.output.shape; // an empty list has lost its number of columns
    const output = tensor(c.shape);
    for (let place = 0; place < output.data.length; place++) {
      output.data[place] = step.op.value(c, unravel(c.shape, place));
    }
    return output;
  }

  /** All values, from inputs (a Map of data by name) and SETs. With `base` and `steps`, only these steps are computed, and
      the rest is taken from the pass `base`. */
  forward(inputs = new Map(), sets = [], base = null, steps = null) {
    const gathered = gather(sets);
    const pass = {values: new Map(base ? base.values : []), contexts: [], inputs, sets};
    for (const t of this.tensors.values()) {
      if (t.step || base && !inputs.has(t.name)) continue;
      pass.values.set(t.name, this.label(t, "value", inputs.get(t.name) || gathered.tensors.get(t.name) || t.value));
    }
    for (const step of this.steps) {
      if (steps && !steps.has(step)) continue;
      if (step.problem) { // nothing that can change leads here
        pass.values.set(step.output.name, this.asTraced.values.get(step.output.name));
        continue;
      }
      const c = pass.contexts[step.number] = this.context(step, pass, gathered);
      c.output = this.label(step.output, "value", this.run(step, c).data);
      if (`${c.shape}` !== `${step.output.shape}`) throw new Error(`${step.output.name} would have another shape`);
      pass.values.set(step.output.name, c.output);
      this.derive(pass, step, c, "value");
    }
    return pass;
  }

  /** The scalar that is differentiated: the results where backward starts, times the gradients that it starts with. */
  objective(pass) {
    let total = 0;
    for (const seed of this.seeds) {
      const {data} = pass.values.get(seed.name);
      for (let i = 0; i < data.length; i++) if (seed.gradient[i] !== 0) total += data[i] * seed.gradient[i];
    }
    return total;
  }

  /** Does a mask hide this number of a tensor, so that a softmax sees -inf in its place? */
  isMasked(pass, t, index) {
    return this.steps.some(({op, inputs, number}) => {
      const c = inputs[0] === t && op === OPS.Where && pass.contexts[number];
      return c && !optionAt(c, "condition", index) && c.x(1, index) === -Infinity;
    });
  }

  /* ---------------------------------------------------------------------------------------------- backward */

  /** All gradients of a pass, perhaps with a mistake; backward reads the values of the pass `from`. */
  backward(pass, mistake = null, from = pass) {
    pass.gradients = new Map();
    pass.sent = this.steps.map(() => []);
    pass.back = [];
    pass.mistake = mistake;
    pass.readFrom = from;
    for (const t of this.tensors.values()) {
      if (t.gradient) pass.gradients.set(t.name, this.label(t, "gradient", new Float64Array(product(t.shape))));
    }
    for (const seed of this.seeds) pass.gradients.get(seed.name).data.set(seed.gradient);
    for (const step of this.steps.slice().reverse()) {
      const c = this.backwardContext(pass, step);
      step.sent.forEach((sent, i) => {
        if (!sent) return;
        const data = c ? this.send(step, c, i, mistake) : sent;
        pass.sent[step.number][i] = data;
        const total = pass.gradients.get(step.inputs[i].name).data;
        for (let k = 0; k < total.length; k++) total[k] += data[k];
      });
    }
    for (const [name, other] of Object.entries(mistake && mistake.exchanges || {})) {
      pass.exchanged = pass.exchanged || new Map([...pass.gradients].map(([key, t]) => [key, t.data]));
      pass.gradients.get(name).data = pass.exchanged.get(other);
    }
    return pass;
  }

  backwardContext(pass, step) {
    if (step.problem) return null;
    if (!pass.back[step.number]) {
      const from = pass.readFrom, c = this.context(step, from, gather(from.sets));
      Object.assign(c, {output: from.values.get(step.output.name), shape: step.output.shape});
      c.gradient = pass.gradients.get(step.output.name);
      c.gradientOf = name => pass.gradients.get(name);
      c.wrong = this.wrongRule(step, pass.mistake, "object") || {};
      pass.back[step.number] = c;
      if (c.gradient) this.derive(pass, step, c, "gradient");
    }
    return pass.back[step.number];
  }

  gradientShape(step, c, slot) { return step.op.gradientShape ? step.op.gradientShape(c, slot) : c.shapes[slot]; }

  /** What a mistake has for a step: a function, which is a rule of gradients, or an object, with rules of derived arrays. */
  wrongRule(step, mistake, type) {
    const asked = mistake && mistake.steps && mistake.steps[step.output.name], wrong = asked && MISTAKES[asked.rule];
    return typeof wrong === type ? wrong : undefined;
  }

  /** The rule of a step's gradient; a mistake's, if it changes this step. */
  rule(step, mistake) {
    const right = (c, slot, index) => step.op.gradient(c, slot, index);
    const wrong = this.wrongRule(step, mistake, "function");
    if (!wrong) return right;
    const asked = mistake.steps[step.output.name];
    return (c, slot, index) => (asked.input ?? slot) === slot ? wrong(c, slot, index, asked, right) : right(c, slot, index);
  }

  /** What a step sends to an input, summed over axes along which the input was broadcast. */
  send(step, c, slot, mistake) {
    const over = this.gradientShape(step, c, slot), shape = c.shapes[slot], data = new Float64Array(product(shape));
    const rule = this.rule(step, mistake);
    for (let place = 0, n = product(over); place < n; place++) {
      const index = unravel(over, place);
      data[ravel(shape, index)] += rule(c, slot, index);
    }
    return data;
  }

  /* ---------------------------------------------------------------------------------------------- explanations */

  /** The terms of a number: for a gradient, one part for each step that sent one, in the order in which backward adds them. */
  explain(pass, name, index, kind) {
    const t = this.tensors.get(name);
    if (t.derived) {
      const c = kind === "value" ? pass.contexts[t.step.number] : this.backwardContext(pass, t.step);
      return {parts: [{step: t.step, term: c.ruleOf(t.derived, kind)(c.terms, index)}]};
    }
    if (kind === "value") {
      if (!t.step) return {parts: [], kind: t.kind};
      const c = pass.contexts[t.step.number];
      if (t.step.problem || !c) return {parts: [], reads: this.inputsOf(t.step), problem: t.step.problem};
      return {parts: [{step: t.step, term: t.step.op.value(c.terms, index)}]};
    }
    const exchanged = pass.mistake && pass.mistake.exchanges && pass.mistake.exchanges[name];
    if (exchanged) return {parts: [], exchanged};
    const arriving = t.uses.slice().sort((a, b) => b.step.number - a.step.number);
    const parts = arriving.map(({step, slot}) => {
      const c = this.backwardContext(pass, step);
      if (!c) return {step, slot, problem: step.problem, value: pass.sent[step.number][slot][ravel(t.shape, index)]};
      const rule = this.rule(step, pass.mistake), over = this.gradientShape(step, c, slot);
      const from = preimages(over, t.shape, index).map(at => rule(c.terms, slot, at));
      return {step, slot, term: from.length === 1 ? from[0] : terms.sum(from.length, k => from[k])};
    });
    return {parts, isSeed: this.seeds.includes(t)};
  }

  inputsOf(step) { return step.inputs.filter(input => input && input.name); }

  /** The tensors that steps read and write in a pass, forward or backward: [{name, kind}]. `derived` are tensors that the
      steps derive and which belong here too. */
  touches({steps, derived, isBackward}, pass) {
    const made = new Set(steps.map(step => step.output.name));
    const key = (name, kind) => `${kind} ${name}`, reads = new Map(), writes = new Map();
    const note = (map, name, kind) => map.set(key(name, kind), {name, kind});
    const noteSources = root => { for (const {name, kind} of sourcesOf(root)) note(reads, name, kind); };
    for (const t of derived) {
      const kind = isBackward ? "gradient" : "value";
      note(writes, t.name, kind);
      if (product(t.shape)) noteSources(this.explain(pass, t.name, t.shape.map(n => n - 1), kind).parts[0].term);
    }
    for (const step of steps) {
      if (!isBackward) {
        for (const input of this.inputsOf(step)) if (!made.has(input.name)) note(reads, input.name, "value");
        for (const t of step.derived) if (t.value && !derived.includes(t)) note(reads, t.name, "value");
        note(writes, step.output.name, "value");
        continue;
      }
      step.sent.forEach((sent, slot) => {
        if (!sent) return;
        note(writes, step.inputs[slot].name, "gradient");
        const c = this.backwardContext(pass, step), over = c && this.gradientShape(step, c, slot);
        if (c && product(over)) noteSources(step.op.gradient(c.terms, slot, over.map(n => n - 1)));
        else note(reads, step.output.name, "gradient");
      });
    }
    for (const name of writes.keys()) reads.delete(name);
    return {reads: [...reads.values()], writes: [...writes.values()]};
  }

  /** How much of a tensor's gradient arrives along each path: [{label, data}]. A path is a step and the input that it uses,
      by default the tensor itself: what the step sends there, carried on to the tensor. */
  shares(pass, name, through) {
    const t = this.tensors.get(name);
    return through.map(({label, tensor, input = name}) => {
      const start = this.tensors.get(input), data = new Float64Array(product(start.shape));
      for (const {step, slot} of start.uses) {
        if (step.output.name === tensor) pass.sent[step.number][slot].forEach((x, i) => { data[i] += x; });
      }
      return {label, data: start === t ? data : this.carried(pass, start, data, t)};
    });
  }

  /** What a gradient at one tensor contributes to the gradient of another, earlier one. */
  carried(pass, start, arriving, t) {
    const partial = {...pass, gradients: new Map(), back: []};
    for (const other of this.tensors.values()) {
      const nothing = new Float64Array(product(other.shape));
      if (other.gradient) partial.gradients.set(other.name, this.label(other, "gradient", nothing));
    }
    partial.gradients.get(start.name).data.set(arriving);
    for (const step of this.steps.slice(0, start.step ? start.step.number + 1 : 0).reverse()) {
      const arrived = partial.gradients.get(step.output.name);
      if (step.problem || !arrived || arrived.data.every(x => x === 0)) continue;
      const c = this.backwardContext(partial, step);
      step.sent.forEach((sent, slot) => {
        if (!sent) return;
        const total = partial.gradients.get(step.inputs[slot].name).data;
        this.send(step, c, slot, pass.mistake).forEach((x, i) => { total[i] += x; });
      });
    }
    return partial.gradients.get(t.name).data;
  }
}

/** SETs by what they change. */
function gather(sets = []) {
  const found = {options: new Map(), constants: new Map(), tensors: new Map()};
  for (const set of sets) {
    if (set.tensor) { found.tensors.set(set.tensor, asNumbers(set.value)); continue; }
    const [map, key] = set.option ? [found.options, set.option] : [found.constants, set.input];
    map.set(set.step, {...map.get(set.step), [key]: set.value});
  }
  return found;
}

/** The indices of a broadcast shape that one index of `shape` is repeated to. */
function preimages(over, shape, index) {
  const extra = over.length - shape.length;
  const free = over.map((n, d) => d < extra || shape[d - extra] === 1 ? n : 1);
  return each(product(free), k => unravel(free, k).map(
    (i, d) => d < extra || shape[d - extra] === 1 ? i : index[d - extra],
  ));
}

/** The numbers of tensors that a term reads, in order, without repetitions. */
function sourcesOf(root) {
  const found = new Map();
  const visit = node => {
    if (node.is === "source" && node.of.name) {
      const {name, kind} = node.of;
      found.set(`${kind} ${name} ${node.index}`, {name, kind, index: node.index});
    }
    if (node.is === "aside") visit(node.written());
    node.parts.forEach(visit);
  };
  visit(root);
  return [...found.values()];
}
