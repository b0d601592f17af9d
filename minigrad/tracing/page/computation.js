/* The trace: tensors, steps, and passes, which are all numbers for some inputs. */

const flatten = (nested, found = []) => {
  if (!Array.isArray(nested)) found.push(nested);
  else nested.forEach(part => flatten(part, found));
  return found;
};
const asNumbers = nested => Float64Array.from(flatten(nested), Number);

class Computation {
  constructor(trace, expressions) {
    this.nodes = new Nodes(expressions);
    this.tensors = new Map();
    this.places = new Map(); // node: {of: {name, kind}, index} of the cell that it is
    for (const t of trace.tensors) {
      this.add({name: t.name, shape: t.shape, kind: t.kind, dtype: t.dtype, uses: [], step: null, value: asNumbers(t.value),
        gradient: t.gradient === null ? null : asNumbers(t.gradient)}, expressions.tensors[t.name]);
    }
    this.changing = expressions.changing.map(([step, what, ids]) => ({step, what, ids: asIds(ids)}));
    this.choices = new Map(Object.entries(expressions.choices).map(([name, [id]]) => [name, id]));
    this.steps = trace.steps.map((step, number) => ({...step, ...expressions.steps[number], number, opName: step.op,
      inputs: step.inputs.map(input => "tensor" in input ? this.tensors.get(input.tensor) : this.constant(input.constant))}));
    this.masks = new Map(); // a tensor: the one that is -inf where a mask hides a number of it
    for (const step of this.steps) this.connect(step);
    /* Where backward starts: gradients that no step sends. */
    this.seeds = [...this.tensors.values()].filter(t => t.gradient && !t.uses.length && t.step);
    this.forward = each(1 + Math.max(...[...this.tensors.values()].flatMap(t => t.ids.value || [])), id => id);
    this.asTraced = this.tracedPass();
  }

  add(t, ids) {
    t.ids = {};
    for (const kind of ["value", "gradient"]) {
      t.ids[kind] = ids[kind] ? asIds(ids[kind]) : null;
      (t.ids[kind] || []).forEach((id, place) => this.note(id, t, kind, place));
    }
    this.tensors.set(t.name, t);
  }

  /** The node is this cell, and so are those between which a choice decides. */
  note(id, t, kind, place) {
    if (this.places.has(id)) return;
    this.places.set(id, {of: {name: t.name, kind}, index: unravel(t.shape, place)});
    if (t.kind === "derived" && this.nodes.names[id] === "where") this.nodes.parts[id].slice(1).forEach(part => this.note(part, t, kind, place));
  }

  constant(value) { return value === null ? null : {name: null, value: asNumbers(value)}; }

  connect(step) {
    step.output = this.tensors.get(step.output);
    step.output.step = step;
    step.sent = step.sent.map(asIdsOrNull);
    step.sent.forEach((sent, slot) => { if (sent) step.inputs[slot].uses.push({step, slot}); });
    step.derived = step.derived.map(({name, shape, ...ids}) => {
      this.add({name, shape, kind: "derived", dtype: "float64", uses: [], step, value: null, gradient: null}, ids);
      return this.tensors.get(name);
    });
    step.named.forEach(({name, shape, ids}) => asIds(ids).forEach((id, place) => {
      if (!this.places.has(id)) this.places.set(id, {called: name, index: unravel(shape, place)});
    }));
    const {opName, inputs: [x], output: {name}} = step;
    if (opName === "Where") this.masks.set(x.name, name).set(name, name);
    else if (["Softmax", "Mul"].includes(opName) && this.masks.has(x.name)) this.masks.set(name, this.masks.get(x.name));
  }

  /* ---------------------------------------------------------------------------------------------- passes */

  /** All numbers for edited inputs, SETs, and perhaps a mistake. */
  run(edits = new Map(), sets = [], mistake = null) { return this.pass(this.nodes.evaluate(this.given(edits, sets, mistake))); }

  /** The numbers of inputs, by node. */
  given(edits, sets, mistake) {
    const given = new Map(this.traced), put = (ids, data) => ids.forEach((id, i) => given.set(id, Number(data[i])));
    for (const set of sets) {
      if (set.choice) { given.set(this.choices.get(set.choice), 1); continue; }
      const {ids} = this.changing.find(one => one.step === set.step && one.what === (set.option ?? set.input)) || {};
      put(ids || this.tensors.get(set.tensor).ids.value, flatten(set.value));
    }
    for (const [name, data] of edits) put(this.tensors.get(name).ids.value, data);
    if (mistake) given.set(this.choices.get(mistake.name), 1);
    return given;
  }

  pass(numbers) {
    const read = kind => new Map([...this.tensors.values()].filter(t => t.ids[kind]).map(
      t => [t.name, {name: t.name, kind, shape: t.shape, data: Float64Array.from(t.ids[kind], id => numbers[id])}]));
    return {numbers, values: read("value"), gradients: read("gradient")};
  }

  /** The trace's own numbers. */
  tracedPass() {
    const isInput = id => this.nodes.names[id] === "input";
    const cells = [...this.tensors.values()].flatMap(t => ["value", "gradient"].flatMap(
      kind => t[kind] ? t.ids[kind].map((id, place) => [id, t[kind][place]]) : []));
    const sent = this.steps.flatMap(({sent, gradients, inputs}) => sent.flatMap((ids, slot) => {
      if (!ids || !isInput(ids[0])) return [];
      const data = gradients[slot] === "all" ? inputs[slot].gradient : asNumbers(gradients[slot]);
      return ids.map((id, place) => [id, data[place]]);
    }));
    const constants = this.changing.flatMap(({step, what, ids}) => {
      const made = this.steps.find(({output}) => output.name === step);
      return flatten(typeof what === "number" ? [...made.inputs[what].value] : made.options[what]).map((x, i) => [ids[i], Number(x)]);
    });
    const choices = [...this.choices.values()].map(id => [id, 0]);
    this.traced = new Map([...cells.filter(([id]) => isInput(id)), ...sent, ...constants, ...choices]);
    const pass = this.pass(this.nodes.evaluate(new Map([...cells, ...this.traced])));
    for (const t of this.tensors.values()) {
      for (const kind of ["value", "gradient"]) if (t.ids[kind]) t[kind] = pass[`${kind}s`].get(t.name).data;
    }
    return pass;
  }

  /** The scalar that is differentiated: the results where backward starts, times the gradients that it starts with. */
  objective(numbers) {
    let total = 0;
    for (const {ids, gradient} of this.seeds) ids.value.forEach((id, i) => { if (gradient[i] !== 0) total += numbers[id] * gradient[i]; });
    return total;
  }

  /** Does a mask hide this number of a tensor, so that a softmax sees -inf in its place, or makes 0 of that? */
  isMasked(pass, t, index) {
    return this.masks.has(t.name) && pass.values.get(this.masks.get(t.name)).data[ravel(t.shape, index)] === -Infinity;
  }

  /* ---------------------------------------------------------------------------------------------- what depends on what */

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
    const changed = this.after(name), meets = step => [...this.after(step.output.name)].some(other => changed.has(other));
    return this.steps.find(step => step.problem && (changed.has(step) || step.sent.some(Boolean) && meets(step))) || null;
  }

  inputsOf(step) { return step.inputs.filter(input => input && input.name); }

  /** The tensors that steps read and write in a pass, forward or backward: [{name, kind}]. `derived` are tensors that the
      steps derive and which belong here too. */
  touches({steps, derived, isBackward}, pass) {
    const kind = isBackward ? "gradient" : "value", made = new Set(steps.map(step => step.output.name));
    const reads = new Map(), writes = new Map();
    const note = (map, {name, kind}) => map.set(`${kind} ${name}`, {name, kind});
    const noteMade = made => { for (const source of sourcesOf(made)) note(reads, source); };
    for (const t of derived) {
      note(writes, {name: t.name, kind});
      if (t.ids[kind].length) noteMade(this.term(pass, t.ids[kind].at(-1), true));
    }
    for (const step of steps) {
      if (!isBackward) {
        for (const input of this.inputsOf(step)) if (!made.has(input.name)) note(reads, {name: input.name, kind});
        for (const t of step.derived) if (t.ids.value && !derived.includes(t)) note(reads, {name: t.name, kind});
        note(writes, {name: step.output.name, kind});
        continue;
      }
      step.sent.forEach((sent, slot) => {
        if (!sent) return;
        note(writes, {name: step.inputs[slot].name, kind});
        if (step.problem || !sent.length) note(reads, {name: step.output.name, kind});
        else noteMade(this.whole(pass, sent.at(-1)));
      });
    }
    for (const name of writes.keys()) reads.delete(name);
    return {reads: [...reads.values()], writes: [...writes.values()]};
  }

  /* ---------------------------------------------------------------------------------------------- explanations */

  /** What a node is made of, down to cells; a named array's own expression if it `isOpened`. */
  term(pass, id, isOpened = false) {
    const value = pass.numbers[id], place = this.places.get(id), name = this.nodes.names[id], [first, ...others] = this.nodes.parts[id];
    if (place && place.of && (!isOpened || name === "cell" || name === "input")) return term("source", [], value, place);
    if (name === "number" || name === "input") return term("number", [], value);
    if (name === "where") return this.term(pass, others[pass.numbers[first] ? 0 : 1], isOpened);
    const parts = () => this.nodes.parts[id].map(part => this.term(pass, part));
    if (place && !isOpened) {
      const made = term(AS_TERMS[name] || name, parts(), value);
      return leavesOf(made) <= SHORT ? made : term("aside", [], value, {name: place.called, index: place.index, written: () => this.term(pass, id, true)});
    }
    if (name === "square") return term("pow", [...parts(), term("number", [], 2)], value);
    return term(AS_TERMS[name] || name, parts(), value);
  }

  /** The term of what a cell is, or of what a step sends: it may be another cell, and is written out if it has a name. */
  whole(pass, id) { return this.term(pass, id, !(this.places.get(id) || {}).of); }

  /** The terms of a number: for a gradient, one part for each step that sent one, in the order in which backward adds them. */
  explain(pass, name, index, kind) {
    const t = this.tensors.get(name), place = ravel(t.shape, index), id = t.ids[kind][place];
    if (t.kind === "derived") return {parts: [{step: t.step, term: this.term(pass, id, true)}]};
    if (kind === "value") {
      if (!t.step) return {parts: [], kind: t.kind};
      if (t.step.problem) return {parts: [], reads: this.inputsOf(t.step), problem: t.step.problem};
      return {parts: [{step: t.step, term: this.whole(pass, this.nodes.parts[id][0])}]};
    }
    const arriving = t.uses.slice().sort((a, b) => b.step.number - a.step.number);
    const parts = arriving.map(({step, slot}) => {
      const node = step.sent[slot][place];
      return step.problem ? {step, slot, problem: step.problem, value: pass.numbers[node]}
        : {step, slot, term: this.whole(pass, node)};
    });
    return {parts, isSeed: this.seeds.includes(t)};
  }

  /** How much of a tensor's gradient arrives along each path: [{label, data}]. A path is a step and the input that it uses,
      by default the tensor itself: what the step sends there, carried on to the tensor. */
  shares(pass, name, through) {
    const t = this.tensors.get(name);
    return through.map(({label, tensor, input = name}) => {
      const start = this.tensors.get(input), data = new Float64Array(product(start.shape));
      for (const {step, slot} of start.uses) {
        if (step.output.name === tensor) step.sent[slot].forEach((id, i) => { data[i] += pass.numbers[id]; });
      }
      return {label, data: start === t ? data : this.carried(pass, start, data, t)};
    });
  }

  /** What a gradient at one tensor contributes to the gradient of another, earlier one. */
  carried(pass, start, arriving, t) {
    const given = new Map();
    this.nodes.names.forEach((name, id) => { if (name === "input" || id < this.forward.length) given.set(id, pass.numbers[id]); });
    for (const seed of this.seeds) seed.ids.gradient.forEach(id => given.set(id, 0));
    start.ids.gradient.forEach((id, i) => given.set(id, arriving[i]));
    const numbers = this.nodes.evaluate(given);
    return Float64Array.from(t.ids.gradient, id => numbers[id]);
  }
}

const asIdsOrNull = ids => ids && asIds(ids);
const SHORT = 2; // numbers that a variable of an op may be made of and still be written out
const leavesOf = node => node.is === "number" ? 0 : node.parts.length ? node.parts.reduce((n, part) => n + leavesOf(part), 0) : 1;

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
