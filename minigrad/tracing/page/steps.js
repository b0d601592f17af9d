/* Stepping through the computation: which matrices a step reads and writes, and its formula. */

/** {a step: the one that it is shown with} */
const joined = new Map(Object.entries(extras.steps).flatMap(([name, words]) => (words.joins || []).map(other => [other, name])));

const derivedBy = (steps, isBackward) =>
  steps.flatMap(step => step.derived).filter(t => isBackward ? t.gradient : t.value);

/** The steps as they are shown: [{name, steps, derived, isBackward, title, words}], each of one or more steps of the
    computation, and of the tensors that they derive. */
function listSteps() {
  const groups = new Map();
  for (const step of computation.steps) {
    const name = joined.get(step.output.name) || step.output.name;
    groups.set(name, [...(groups.get(name) || []), step]);
  }
  const order = [...groups].sort((a, b) => a[1][a[1].length - 1].number - b[1][b[1].length - 1].number);
  const make = ([name, steps], isBackward, derived = derivedBy(steps, isBackward).filter(t => !extras.steps[t.name])) => {
    const words = extras.steps[name] || {};
    const title = words.title || `${symbolOf(name)}: ${steps.map(step => step.opName).join(", ")}`;
    return {name, steps, derived, isBackward, title, words: (isBackward ? words.backward : words.forward) || {}};
  };
  const ownSteps = (steps, isBackward) => // of derived tensors that the extras explain
    derivedBy(steps, isBackward).filter(t => extras.steps[t.name]).map(t => make([t.name, []], isBackward, [t]));
  const back = order.filter(([, steps]) => steps.some(step => step.sent.some(Boolean))).reverse();
  return [true, false].flatMap(isForward => (isForward ? order : back).flatMap(
    group => [...ownSteps(group[1], !isForward), make(group, !isForward)]));
}

const steps = listSteps();

/** What a step contributes to a number: [{by, value, term}], as one term if there is no problem. */
function sentBy(step, {name, kind, index}, explained = computation.explain(pass, name, index, kind)) {
  const sent = explained.parts.filter(one => step.steps.includes(one.step) || step.derived.includes(computation.tensors.get(name)));
  if (sent.some(one => !one.term)) return sent.map(one => ({...one, by: step, value: one.term ? one.term.value : one.value}));
  const all = sent.map(one => unfold(one.term)), term = all.length > 1 ? sumOf(all) : all[0];
  return term ? [{by: step, term, value: term.value}] : [];
}

/** What a step reads and writes. Steps joined to it stay out of sight: what they made counts as what that is made of. */
function touchedBy(step) {
  const {reads, writes} = computation.touches(step, pass), key = ({name, kind}) => `${kind} ${name}`;
  const written = new Map(writes.filter(({name}) => !joined.has(name)).map(one => [key(one), one]));
  const sources = reads.flatMap(one => !joined.has(one.name) ? [one]
    : one.kind === "value" ? madeOf(one.name).map(name => ({name, kind: "value"})) : []);
  const read = new Map(sources.filter(one => !written.has(key(one))).map(one => [key(one), one]));
  return {reads: [...read.values()], writes: [...written.values()]};
}

const directionOf = ({isBackward}) => isBackward ? "backward" : "forward";

function goTo(step, isPlace = true) {
  state.step = Math.min(Math.max(step, 0), steps.length);
  keepInAddress({step: state.step || (state.station ? 0 : "")}, isPlace);
  state.pointed = null;
  drawPointed();
  drawStep();
}

let fitted = ""; // what is on the screen, and need not be fitted again after an edit, which would scroll its boxes back

function drawStep() {
  const current = steps[state.step - 1];
  byId("step").value = state.step;
  byId("previous").disabled = byId("all").disabled = state.step === 0;
  byId("next").disabled = state.step === steps.length;
  const direction = current && directionOf(current);
  const name = current ? `${state.step} of ${steps.length}, ${direction}: ${current.title}` : `All ${steps.length} steps`;
  byId("step-name").textContent = name;
  byId("step-name").dataset.step = state.step;
  byId("step").setAttribute("aria-valuetext", name);
  document.body.classList.toggle("stepping", Boolean(current));
  for (const {figure} of grids.values()) delete figure.dataset.role;
  const {reads, writes} = current ? touchedBy(current) : {reads: [], writes: []};
  for (const [list, role] of [[reads, "read"], [writes, "written"]]) {
    for (const grid of list.map(gridOf).filter(Boolean)) grid.figure.dataset.role = role;
  }
  for (const grid of grids.values()) grid.figure.classList.toggle("opened", canBeOpened(grid) && state.opened.has(grid.t.name));
  lightMap(reads, writes);
  drawSoFar(current);
  drawFormulas();
  drawBars();
  const now = JSON.stringify([state.step, reads, writes, [...state.opened]]);
  if (now !== fitted) measureBar();
  fitted = now;
}

/** Is this an input that the step shown does not touch? */
const canBeOpened = ({isEditable, figure}) => Boolean(state.step) && isEditable && !figure.dataset.role;

/** Show an input in all steps, to be edited there, or no longer. */
function toggleOpened(name) {
  const isOpen = !state.opened.delete(name);
  if (isOpen) state.opened.add(name);
  drawStep();
  (isOpen ? gridOf({name, kind: "value"}).cells[0] : byId("formulas").querySelector(`[data-opens="${name}"]`)).focus();
}

/** The steps that write a gradient. One adds to what an earlier one has written. */
const writersOf = name => writers.get(name) || [];
const writers = new Map();
for (const step of steps.filter(step => step.isBackward)) {
  for (const {name} of touchedBy(step).writes) writers.set(name, [...writersOf(name), step]);
}
const isBegun = (step, name) => writersOf(name).indexOf(step) > 0;

/** What a number is made of, as `explain` says it: {parts: [{by, value, term}]}, a part for each step that sends something. */
function contributionsTo(one) {
  const explained = computation.explain(pass, one.name, one.index, one.kind), writers = one.kind === "gradient" ? writersOf(one.name) : [];
  const by = writers.length ? writers : [...new Set(explained.parts.map(part => shownStepOf(part.step, one.kind)))];
  return {...explained, parts: by.flatMap(step => sentBy(step, one, explained))};
}

const shownStepOf = (step, kind) =>
  steps.find(shown => shown.isBackward === (kind === "gradient") && shown.steps.includes(step)) || {name: step.output.name, steps: [step], derived: []};

let partial = []; // cells that show what has been added so far

/** In a step, gradients to which later steps will add show what has been added so far. */
function drawSoFar(step) {
  for (const cell of partial) cell.grid.paint(cell, Number(cell.dataset.value));
  partial.forEach(cell => { delete cell.dataset.soFar; });
  partial = [];
  for (const {figure, t, kind, cells} of grids.values()) {
    const isWritten = figure.dataset.role === "written" && kind === "gradient" && writersOf(t.name).at(-1) !== step;
    for (const cell of cells) {
      const one = {name: t.name, kind, index: unravel(t.shape, cell.place)};
      if (!isWritten) continue;
      const {parts} = contributionsTo(one);
      const sent = parts.filter(({by}) => steps.indexOf(by) < state.step);
      if (sent.length === parts.length) continue;
      const soFar = sent.reduce((sum, {value}) => sum + value, 0);
      cell.dataset.soFar = soFar;
      cell.grid.paint(cell, soFar, sent.length ? shown(soFar) : "");
      partial.push(cell);
    }
  }
}

const LONGEST = 24; // characters of a formula in a caption

/** The right side of the formula by which a matrix is made, if it is short, and the same in all steps that make it. */
function madeBy({name, kind}) {
  const isWritten = one => one.name === name && one.kind === kind, left = symbol({name, kind});
  const makers = steps.filter(step => touchedBy(step).writes.some(isWritten));
  const rights = new Set(makers.map(({words}) => {
    const lines = [words.formula ?? []].flat().map(line => line.split(/ \+?= /));
    return (lines.find(([start]) => start === left || start.startsWith(`${left}_`)) || [])[1];
  }));
  const [right = ""] = rights;
  return rights.size > 1 || right.length > LONGEST ? "" : right;
}

/** The formulas of a step, line by line: those of the extras, or those of its ops in the trace's names. */
function formulaOf(shownStep) {
  const {steps: all, isBackward, words} = shownStep;
  if (words.formula) {
    const begun = isBackward ? touchedBy(shownStep).writes.map(one => one.name).filter(name => isBegun(shownStep, name)) : [];
    const adds = left => begun.map(symbolOf).some(name => left === name || left.startsWith(`${name}_`));
    return [words.formula].flat().flatMap(text => text.split(/,\s{2,}/)).map(text => breakable(
      text.replace(/^d(\S+) = /, (whole, left) => adds(left) ? `d${left} += ` : whole), symbolOf));
  }
  const written = new Set();
  return all.flatMap(step => {
    const names = new Map([["out", symbolOf(step.output.name)], ["dout", `d${symbolOf(step.output.name)}`]]);
    step.names.forEach((name, i) => {
      const input = step.inputs[i];
      if (!input) return;
      const called = input.name !== null ? symbolOf(input.name) : input.value.length === 1 ? shown(input.value[0]) : name;
      names.set(name, called).set(`d${name}`, `d${called}`);
    });
    const rename = name => names.get(name) || name, lines = text => text.split(/,\s{2,}/).filter(Boolean);
    const text = isBackward ? step.backward : step.formula;
    if (!text) return [[element("p", {}, step.opName)]];
    if (!isBackward) return lines(text).map(line => breakable(line, rename));
    return lines(text).flatMap(line => {
      const i = step.names.findIndex(name => line.startsWith(`d${name} = `));
      if (i < 0) return [breakable(line, rename)];
      if (!step.sent[i]) return [];
      const {name} = step.inputs[i], adds = written.has(name) || isBegun(shownStep, name);
      written.add(name);
      return [breakable(adds ? line.replace(" = ", " += ") : line, rename)];
    });
  });
}

/** Buttons for the inputs that the step shown does not touch. */
function offerInputs() {
  const others = [...grids.values()].filter(canBeOpened).map(({t}) => t.name);
  const offer = name => button(symbolOf(name), () => toggleOpened(name), {"aria-pressed": state.opened.has(name), "data-opens": name});
  return others.length ? [element("p", {class: "others"}, "Edit here too: ", ...others.map(offer))] : [];
}

const MOST_SOURCES = 12; // of a number that is worked out unasked
let examples = []; // its cell, and those that it comes from

/** Outline the cell of a number, and those of a term, until the next are. */
function outline(one, term) {
  examples.forEach(box => box.classList.remove("example"));
  examples = (one ? [one, ...sourcesOf(term)] : []).map(cellAt).filter(Boolean).map(cell => cell.box);
  examples.forEach(box => box.classList.add("example"));
}

/** One of the numbers that a step writes, worked out: the largest of the last row. At a station its question's is. */
function workOut(step, {writes}) {
  outline(null);
  if (station()) {
    const {sign: asked} = station().question;
    if (given() && asked) outline({...asked, name: asked.tensor}, termOf(asked));
    return [];
  }
  const written = writes.map(gridOf), grid = [...grids.values()].find(grid => written.includes(grid));
  if (step !== steps[state.step - 1] || !grid || !grid.cells.length) return [];
  const {t, kind, cells} = grid, {data} = (kind === "value" ? pass.values : pass.gradients).get(t.name);
  const all = cells.map(({place}) => ({name: t.name, kind, place, index: unravel(t.shape, place)}));
  const inLastRow = all.filter(({index}) => `${lead(index)}` === `${lead(all.at(-1).index)}`);
  const size = ({place}) => Math.abs(data[place]), one = inLastRow.reduce((a, b) => size(b) > size(a) ? b : a);
  const [part] = sentBy(step, one), sources = part && part.term ? sourcesOf(part.term) : [];
  if (!sources.length || sources.length > MOST_SOURCES || asidesOf(part.term).size) return [];
  outline(one, part.term);
  const {parts} = contributionsTo(one), i = parts.findIndex(({by}) => by === step);
  return [element("div", {class: "worked"},
    element("h3", {}, "For example"), line(symbol(one), placed(one.index)), ...writePart(part),
    ...(parts.length > 1 ? [line(arrival(parts, i))] : []), ...readAloud(one, data[one.place]))];
}

/** Does the mistake chosen replace what this step does? */
const isMistakenIn = ({steps, isBackward}) =>
  isBackward && steps.some(({output}) => ((extras.mistakes[state.mistake] || {}).steps || []).includes(output.name));

/** The formulas of the step shown, else of the step that made the number pointed at. */
function drawFormulas() {
  const section = byId("formulas");
  const {pointed} = state;
  const made = pointed && steps.find(({steps, derived, isBackward}) => isBackward === (pointed.kind === "gradient")
    && (derived.some(t => t.name === pointed.name) || steps.some(step => isBackward ? step.inputs.some((input, i) => input && input.name === pointed.name && step.sent[i])
      : step.output.name === pointed.name)));
  const current = steps[state.step - 1] || made;
  section.hidden = !current && Boolean(pointed);
  if (!current) {
    outline(null);
    section.replaceChildren(element("details", !isNarrow() ? {open: ""} : {},
      element("summary", {}, "How to read this page"), ...paragraphs([
        ...(computation.seeds.length && !extras.introduction.length
          ? ["Each gradient stands below its value. Forward goes from left to right, backward from right to left."] : []),
        "Point at any number, or move to it with the arrow keys: its terms appear here, and the numbers it comes from light up.",
        "Type a number with a dotted underline anew, or drag it to the left or right: all that depends on it follows, forward and backward.",
        "Go step by step with the arrows above, or with the keys [ and ]. Hatched cells are masked."
          + (boxes.length > 1 ? " A box opens by its name; ‖X‖ is how large all of X is, the root of the sum of its squares." : ""),
      ])));
    return;
  }
  const touched = touchedBy(current);
  const list = all => !all.some(gridOf) ? ["nothing"]
    : all.filter(gridOf).flatMap((one, i) => [i ? ", " : "", element("span", {}, symbol(one))]);
  const isMistaken = isMistakenIn(current);
  section.replaceChildren(
    element("h2", {}, element("span", {}, directionOf(current).replace(/^./, letter => letter.toUpperCase())), ` ${current.title}`),
    ...formulaOf(current).map(pieces => element("div", {class: isMistaken ? "formula replaced" : "formula"}, ...pieces)),
    ...(isMistaken ? [element("p", {class: "problem"}, "The mistake replaces this rule.")] : []),
    ...workOut(current, touched),
    ...(isMistaken ? [] : [current.words.derivation || []].flat()).map(line => derivation(line, symbolOf)),
    element("p", {class: "touches"}, "Reads ", ...list(touched.reads), ". Writes ", ...list(touched.writes), "."),
    ...offerInputs(),
    ...current.steps.filter(step => step.problem).map(step => element("p", {class: "problem"}, `${step.problem}.`)),
  );
}
