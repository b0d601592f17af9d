"use strict";
/* Draws a trace, and lets it be stepped through, pointed at and edited. `state` is all that a user can change; `update`
   makes numbers of it, and draws them. */

const {trace, extras} = JSON.parse(document.getElementById("data").textContent);
const computation = new Computation(trace);
const byId = id => document.getElementById(id);
const symbolOf = name => (extras.symbols || {})[name] || name;
const symbol = ({name, kind}) => (kind === "gradient" ? "d" : "") + symbolOf(name);
const paragraphs = text => [text || []].flat().map(line => element("p", {}, line));
const isFloat = t => t.dtype.startsWith("float");

const state = {
  edits: new Map(), // name: all numbers of an input, one of which was edited
  switches: (extras.switches || []).map(s => s.number ? Number(s.number.value) : 0),
  mistake: -1, // none
  isForced: false, // to compute also what the trace has
  step: 0, // 0: all; then the steps forward; then those backward
  pointed: null, // {name, index, kind}
  h: 1e-5,
  past: [], // of edits and switches, for undo
};
let pass = computation.asTraced; // the numbers shown
let right = pass; // the same without the mistake

/* ------------------------------------------------------------------------------------------------ numbers of a state */

function activeSets() {
  return (extras.switches || []).flatMap((s, i) => {
    if (!s.number) return s.choices[state.switches[i]].sets;
    return state.switches[i] === Number(s.number.value) ? [] : [{...s.number, value: state.switches[i]}];
  });
}

const isAsTraced = () => !state.edits.size && !activeSets().length && !state.isForced;

function compute() {
  const mistake = state.mistake < 0 ? null : extras.mistakes[state.mistake], sets = activeSets();
  right = isAsTraced() ? computation.asTraced : computation.backward(computation.forward(state.edits, sets));
  pass = right;
  if (!mistake) return;
  const of = mistake.recomputes && mistake.recomputes.length
    ? computation.forward(state.edits, [...sets, ...mistake.recomputes]) : right;
  right = computation.backward({...right}, null, right); // by the same rules, so that they differ where the mistake is only
  pass = computation.backward({...right}, mistake, of);
  if (isAsTraced()) { // what is not wrong stays as it was traced
    for (const [name, t] of pass.gradients) {
      const traced = computation.asTraced.gradients.get(name).data, wrong = wrongPlaces(name);
      t.data = t.data.map((x, i) => wrong.has(i) ? x : traced[i]);
    }
  }
}

/** The places where a mistake makes a gradient wrong: by more than rounding can. */
function wrongPlaces(name) {
  if (pass === right) return new Set();
  const found = pass.gradients.get(name).data, expected = right.gradients.get(name).data;
  const size = Math.max(0, ...[...found, ...expected].filter(Number.isFinite).map(Math.abs));
  const places = new Set();
  found.forEach((x, i) => {
    const isSame = Object.is(x, expected[i]) || x === expected[i] || Math.abs(x - expected[i]) <= 1e-9 * size;
    if (!isSame) places.add(i);
  });
  return places;
}

/* ------------------------------------------------------------------------------------------------ matrices */

const grids = new Map(); // "value q" -> Grid
const gridOf = ({name, kind}) => grids.get(`${kind} ${name}`);

const obstacles = new Map([...computation.tensors.values()].map(t => [t.name, computation.obstacle(t.name)]));

function isEditable(t) {
  const wanted = extras.editable ? extras.editable.includes(t.name) : t.kind === "input";
  return wanted && !t.step && isFloat(t) && !obstacles.get(t.name);
}

/** A tensor's values or gradient: a table for a matrix, several for more axes. */
class Grid {
  constructor(t, kind) {
    Object.assign(this, {t, kind, cells: [], isEditable: kind === "value" && isEditable(t)});
    this.figure = element("figure", {class: "matrix", "data-name": t.name, "data-of": kind});
    this.badge = element("span", {class: "badge"});
    const [rows, columns] = [t.shape[t.shape.length - 2] ?? 1, t.shape[t.shape.length - 1] ?? 1];
    const leading = t.shape.slice(0, -2), labels = (extras.labels || {})[t.name] || {};
    for (let k = 0; k < product(leading); k++) {
      const head = [element("b", {}, symbol({name: t.name, kind}))];
      if (leading.length) head.push(` [${unravel(leading, k).join(",")}]`);
      if (k === 0) {
        const plain = symbolOf(t.name) === t.name ? "" : ` ${t.name}`;
        const lengths = t.shape.length ? t.shape.join(" × ") : "scalar";
        head.push(element("span", {class: "shape"}, `${plain} ${lengths}`), " ", this.badge);
      }
      const table = element("table", {role: "grid"}, element("caption", {}, ...head));
      this.fill(table, rows, columns, k * rows * columns, labels);
      this.figure.append(element("div", {class: "scroll"}, table));
    }
    if (this.cells.length) this.cells[0].tabIndex = 0;
    grids.set(`${kind} ${t.name}`, this);
  }

  fill(table, rows, columns, start, labels) {
    const isMatrix = this.t.shape.length > 1, head = element("tr");
    if (isMatrix) head.append(element("td", {class: "corner"}));
    for (let j = 0; j < columns; j++) head.append(element("th", {scope: "col"}, String((labels.columns || [])[j] ?? j)));
    if (this.t.shape.length) table.append(element("thead", {}, head));
    const body = table.appendChild(element("tbody"));
    for (let i = 0; i < rows; i++) {
      const tr = body.appendChild(element("tr"));
      if (isMatrix) tr.append(element("th", {scope: "row"}, String((labels.rows || [])[i] ?? i)));
      for (let j = 0; j < columns; j++) tr.append(this.cell(start + i * columns + j));
    }
  }

  cell(place) {
    const index = unravel(this.t.shape, place).join(",");
    const attributes = {"data-tensor": this.t.name, "data-index": index, "data-kind": this.kind, tabindex: -1};
    const name = `${symbol({name: this.t.name, kind: this.kind})} ${index}`.trim();
    const td = this.isEditable ? element("td", {class: "editable"}) : element("td", attributes);
    const cell = this.isEditable ? td.appendChild(element("input", {
      ...attributes, type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", "aria-label": name,
    })) : td;
    Object.assign(cell, {grid: this, place, box: td, label: name});
    this.cells.push(cell);
    return td;
  }

  /** Show these numbers; `traced`, what they were at first; `wrong`, the places of wrong ones, and what is right there. */
  show(data, traced, wrong, expected) {
    const largest = Math.max(...data.map(x => Number.isFinite(x) ? Math.abs(x) : 0), 1e-300);
    const isWhole = !isFloat(this.t);
    this.cells.forEach((cell, i) => {
      const x = data[i], exact = String(x), box = cell.box, isWrong = wrong.has(i);
      if (cell.getAttribute("data-value") !== exact) {
        cell.setAttribute("data-value", exact);
        const text = isWhole ? exact : shown(x);
        if (cell === box) cell.textContent = text;
        else if (cell !== document.activeElement) cell.value = text;
        const kind = x > 0 ? "positive" : x < 0 ? "negative" : Number.isNaN(x) ? "" : "zero";
        box.dataset.sign = Number.isFinite(x) ? kind : "none";
      }
      const size = (Number.isFinite(x) ? Math.sqrt(Math.abs(x) / largest) : 0).toFixed(2);
      if (box.tint !== size) box.style.setProperty("--size", box.tint = size);
      box.classList.toggle("changed", x !== traced[i] && !(Number.isNaN(x) && Number.isNaN(traced[i])));
      if (isWrong !== box.classList.contains("wrong") || isWrong) {
        box.classList.toggle("wrong", isWrong);
        if (isWrong) cell.setAttribute("aria-label", `${shown(x)}, wrong: ${shown(expected[i])} is right`);
        else if (cell === box) cell.removeAttribute("aria-label");
      }
    });
  }
}

const names = [...computation.tensors.keys()];

/** The tensors in rows: as the extras have it, or the inputs, then the results. */
function rowsOfTensors() {
  const layout = extras.layout || [
    names.filter(name => !computation.tensors.get(name).step), names.filter(name => computation.tensors.get(name).step),
  ];
  const placed = new Set(layout.flat());
  return {rows: layout.filter(row => row.length), rest: names.filter(name => !placed.has(name))};
}

function drawGrids() {
  const {rows, rest} = rowsOfTensors();
  for (const kind of ["value", "gradient"]) {
    const section = byId(kind === "value" ? "forward" : "backward");
    const has = name => kind === "value" || computation.tensors.get(name).gradient;
    const figures = row => row.filter(has).map(name => new Grid(computation.tensors.get(name), kind).figure);
    for (const row of rows) if (row.some(has)) section.append(element("div", {class: "row"}, ...figures(row)));
    if (rest.some(has)) {
      section.append(element("details", {class: "between"}, element("summary", {}, "In between"),
        element("div", {class: "row"}, ...figures(rest))));
    }
  }
  if (!computation.seeds.length) {
    byId("backward").append(element("p", {class: "hint"}, "Backward has not run in this trace."));
  }
}

const reveal = grid => { const details = grid.figure.closest("details"); if (details) details.open = true; };

/* ------------------------------------------------------------------------------------------------ steps */

/** The steps as they are shown: [{steps, isBackward, title, words}]. */
function listSteps() {
  const wordsOf = extras.steps || {}, joined = new Map();
  for (const [name, words] of Object.entries(wordsOf)) for (const other of words.joins || []) joined.set(other, name);
  const groups = new Map();
  for (const step of computation.steps) {
    const name = joined.get(step.output.name) || step.output.name;
    groups.set(name, [...(groups.get(name) || []), step]);
  }
  const order = [...groups].sort((a, b) => a[1][a[1].length - 1].number - b[1][b[1].length - 1].number);
  const make = ([name, steps], isBackward) => {
    const words = wordsOf[name] || {};
    const title = words.title || `${symbolOf(name)}: ${steps.map(step => step.opName).join(", ")}`;
    return {name, steps, isBackward, title, words: (isBackward ? words.backward : words.forward) || {}};
  };
  return [
    ...order.map(group => make(group, false)),
    ...order.filter(([, steps]) => steps.some(step => step.sent.some(Boolean))).reverse().map(group => make(group, true)),
  ];
}

const steps = listSteps();

function goTo(step) {
  state.step = Math.min(Math.max(step, 0), steps.length);
  drawStep();
}

function drawStep() {
  const current = steps[state.step - 1];
  byId("step").value = state.step;
  byId("previous").disabled = state.step === 0;
  byId("next").disabled = state.step === steps.length;
  const direction = current && (current.isBackward ? "backward" : "forward");
  const name = current ? `${state.step} of ${steps.length}, ${direction}: ${current.title}` : `All ${steps.length} steps`;
  byId("step-name").textContent = name;
  byId("step").setAttribute("aria-valuetext", name);
  document.body.classList.toggle("stepping", Boolean(current));
  const touched = current ? computation.touches(current.steps, current.isBackward) : {reads: [], writes: []};
  for (const grid of grids.values()) { grid.figure.classList.remove("reads", "writes"); grid.badge.textContent = ""; }
  for (const [role, list] of Object.entries(touched)) {
    for (const one of list) {
      const grid = gridOf(one);
      if (!grid) continue;
      grid.figure.classList.add(role);
      grid.badge.textContent = role === "reads" ? "read" : "written";
      reveal(grid);
    }
  }
  drawFormulas();
  if (current) show(touched.writes);
}

/** Bring what is written into view: between the bar and the sheet, by the page's scroll-padding. */
function show(written) {
  const grids = written.map(gridOf).filter(Boolean);
  const grid = grids.find(({figure}) => !figure.closest("details")) || grids[0]; // not what is in between
  if (grid) grid.figure.scrollIntoView({block: "nearest"});
}

/** What a step's formula says, with the trace's names: that of the extras, or of the op. */
function formulaOf({steps: [step], steps: all, isBackward, words}) {
  if (words.formula) return [formula(words.formula, symbolOf)];
  return all.flatMap(step => {
    if (!step.op) return [element("p", {}, (isBackward ? step.backward : step.formula) || step.opName)];
    const lines = isBackward ? (step.op.backward || []).filter((_, i) => step.sent[i]) : [step.op.formula];
    const names = new Map([["out", symbolOf(step.output.name)], ["dout", `d${symbolOf(step.output.name)}`]]);
    (step.op.names || []).forEach((name, i) => {
      const input = step.inputs[i];
      if (!input) return;
      const called = input.name !== null ? symbolOf(input.name) : input.value.length === 1 ? shown(input.value[0]) : name;
      names.set(name, called).set(`d${name}`, `d${called}`);
    });
    return lines.map(line => formula(line, name => names.get(name) || name));
  });
}

/** The step shown; else the one that made the number pointed at. */
function drawFormulas() {
  const section = byId("formulas");
  const {pointed} = state;
  const made = pointed && steps.find(({steps, isBackward}) => isBackward === (pointed.kind === "gradient")
    && steps.some(step => isBackward ? step.inputs.some((input, i) => input && input.name === pointed.name && step.sent[i])
      : step.output.name === pointed.name));
  const current = steps[state.step - 1] || made;
  section.hidden = !current && Boolean(pointed);
  if (!current) {
    section.replaceChildren(element("h2", {}, "How to read this page"), ...paragraphs([
      "Point at any number, or move to it with the arrow keys: its terms are written out here, and the numbers that it "
      + "comes from light up.",
      "Numbers with a dotted line below can be edited: all others follow, forward and backward.",
      "The arrows above go through the computation step by step; so do the keys [ and ].",
    ]));
    return;
  }
  const touched = computation.touches(current.steps, current.isBackward);
  const list = all => all.map(one => symbol(one)).join(", ") || "nothing";
  section.replaceChildren(
    element("h2", {}, element("span", {}, current.isBackward ? "Backward" : "Forward"), ` ${current.title}`),
    ...formulaOf(current).map(node => element("div", {class: "formula"}, node)),
    ...[current.words.derivation || []].flat().map(line => derivation(line, symbolOf)),
    element("p", {class: "touches"}, `Reads ${list(touched.reads)}. Writes ${list(touched.writes)}.`),
    ...current.steps.filter(step => step.problem).map(step => element("p", {class: "problem"}, `${step.problem}.`)),
  );
}

/* ------------------------------------------------------------------------------------------------ the number pointed at */

function point(cell, isSpoken = false) {
  const next = {name: cell.grid.t.name, kind: cell.grid.kind, index: unravel(cell.grid.t.shape, cell.place)};
  const key = one => one && `${one.kind} ${one.name} ${one.index}`;
  if (key(next) === key(state.pointed) && !isSpoken) return;
  state.pointed = next;
  drawPointed(isSpoken);
  if (!state.step) drawFormulas();
}

let lit = [];
const cellAt = ({name, kind, index}) => {
  const grid = gridOf({name, kind});
  return grid && grid.cells[ravel(grid.t.shape, index)];
};

function drawPointed(isSpoken = false) {
  lit.forEach(box => box.classList.remove("pointed", "source"));
  lit = [];
  const section = byId("number");
  document.body.classList.toggle("pointing", Boolean(state.pointed));
  if (!state.pointed) { section.hidden = byId("difference").hidden = true; return; }
  section.hidden = false;
  const {name, kind, index} = state.pointed, cell = cellAt(state.pointed);
  const light = (cell, role) => { if (cell) { cell.box.classList.add(role); lit.push(cell.box); } };
  light(cell, "pointed");
  const value = (kind === "value" ? pass.values : pass.gradients).get(name).data[cell.place];
  const explained = computation.explain(pass, name, index, kind);
  const head = element("h2", {}, symbol({name, kind}), element("span", {class: "at"}, bracketed(index)));
  const lines = writeOut(explained, value, sources => sources.forEach(source => light(cellAt(source), "source")));
  const isWrong = cell.box.classList.contains("wrong");
  const expected = () => shown(right.gradients.get(name).data[cell.place]);
  const close = element("button", {type: "button", class: "close", "aria-label": "Close"}, "×");
  close.addEventListener("click", () => { state.pointed = null; drawPointed(); drawFormulas(); });
  section.replaceChildren(
    close, head, element("p", {class: "hero"}, shown(value)), element("p", {class: "exact"}, String(value)),
    ...(isWrong ? [element("p", {class: "problem"}, `Wrong: ${expected()} is right.`)] : []), ...lines,
  );
  if (isSpoken) byId("spoken").textContent = lines.map(line => line.textContent).join(" ").slice(0, 400);
  drawDifference();
}

/** What the extras join to another step: its numbers are written out where they are read. */
const joined = new Set(Object.values(extras.steps || {}).flatMap(words => words.joins || []));

function unfold(node) {
  if (node.is === "source" && joined.has(node.of.name)) {
    const {parts} = computation.explain(pass, node.of.name, node.index, node.of.kind);
    if (parts.length && parts.every(part => part.term)) {
      const sent = parts.map(part => unfold(part.term));
      return sent.length === 1 ? sent[0] : over("sum", sent);
    }
  }
  return {...node, parts: node.parts.map(unfold)};
}

function writeOut(explained, value, light) {
  if (explained.exchanged) return [element("p", {}, `By mistake, the gradient of ${symbolOf(explained.exchanged)}.`)];
  if (explained.problem) {
    return [element("p", {class: "problem"}, `${explained.problem}.`),
      element("p", {}, `It reads ${explained.reads.map(t => symbolOf(t.name)).join(", ")}.`)];
  }
  const parts = explained.parts.map(part => part.term ? {...part, term: unfold(part.term)} : part);
  if (!parts.length) {
    return [element("p", {}, explained.isSeed ? "Backward starts here." : explained.kind ? `One of the ${explained.kind}s.`
      : "No step sends a gradient here.")];
  }
  const sources = parts.flatMap(part => part.term ? sourcesOf(part.term) : []);
  light(sources);
  const copied = parts.length === 1 && parts[0].term && parts[0].term.is === "source" ? parts[0].term : null;
  if (copied && computation.tensors.has(copied.of.name)) {  // as dS from dM: the number is the same, so what it is made of is written out at once
    const from = computation.explain(pass, copied.of.name, copied.index, copied.of.kind);
    if (from.parts.length) {
      const same = element("p", {class: "line"}, "= ", symbol(copied.of), element("span", {class: "at"}, bracketed(copied.index)));
      return [same, ...writeOut(from, value, light)];
    }
  }
  const reference = (node, text) => {
    const span = element("span", {class: "ref"}, ...text);
    const source = cellAt({name: node.of.name, kind: node.of.kind, index: node.index});
    span.addEventListener("pointerenter", () => source.box.classList.add("source-hover"));
    span.addEventListener("pointerleave", () => source.box.classList.remove("source-hover"));
    return span;
  };
  const ways = [false, true].map(inNumbers => new Written(inNumbers, symbol, reference));
  const line = (...nodes) => element("p", {class: "line"}, ...nodes);
  const lines = [];
  if (parts.length > 1) {
    const sent = parts.map(part => shown(part.term ? part.term.value : part.value));
    const sum = sent.map((text, i) => i && text.startsWith("-") ? `(${text})` : text).join(" + ");
    lines.push(line(`= ${sum} = `, element("b", {}, shown(value)), `, in ${parts.length} ways`));
  }
  for (const part of parts) {
    if (parts.length > 1) lines.push(element("h3", {}, `through ${symbolOf(part.step.output.name)}`));
    if (!part.term) { lines.push(element("p", {class: "problem"}, `${shown(part.value)}: ${part.problem}.`)); continue; }
    const written = ways.map(way => way.nodes(part.term));
    const texts = written.map(nodes => nodes.map(node => node.textContent ?? node).join(""));
    lines.push(line("= ", ...written[0]));
    if (texts[0] !== texts[1]) lines.push(line("= ", ...written[1]));
    if (texts[1] !== shown(part.term.value)) lines.push(line("= ", element("b", {}, shown(part.term.value))));
    for (const aside of asidesOf(part.term).values()) {
      const [inNames, inNumbers] = ways.map(way => way.nodes(aside.written()));
      lines.push(element("p", {class: "line aside"}, element("em", {}, aside.name), bracketed(aside.index),
        " = ", ...inNames, " = ", ...inNumbers, " = ", shown(aside.value)));
    }
  }
  return lines;
}

/* ------------------------------------------------------------------------------------------------ finite differences */

const EXPONENTS = Array.from({length: 45}, (_, i) => -12 + i / 4);

/** (L(x + h) - L(x - h)) / 2h, of one number of an input. */
function differenceAt(name, place, h) {
  const values = pass.values.get(name).data, after = computation.after(name);
  const at = x => {
    const data = values.slice();
    data[place] = x;
    return computation.objective(computation.forward(new Map([[name, data]]), activeSets(), pass, after));
  };
  return (at(values[place] + h) - at(values[place] - h)) / (2 * h);
}

let plotTimer = 0;

function drawDifference() {
  const section = byId("difference"), {pointed} = state;
  const t = pointed && computation.tensors.get(pointed.name);
  const place = t && ravel(t.shape, pointed.index);
  const canDiffer = t && !t.step && isFloat(t) && t.gradient && computation.seeds.length && !obstacles.get(t.name)
    && Number.isFinite(pass.values.get(t.name).data[place]);
  section.hidden = !canDiffer;
  clearTimeout(plotTimer);
  if (!canDiffer) return;
  if (!section.firstChild) buildDifference(section);
  const gradient = pass.gradients.get(t.name).data[place], difference = differenceAt(t.name, place, state.h);
  const [a, b] = [difference, gradient].map(x => x.toPrecision(12));
  let same = 0;
  while (same < a.length && a[same] === b[same]) same++;
  const digits = text => [element("b", {}, text.slice(0, same)), text.slice(same)];
  section.querySelector(".of-differences").replaceChildren(...digits(a));
  section.querySelector(".of-backward").replaceChildren(...digits(b));
  section.querySelector(".of-error").replaceChildren(...inTens(Math.abs(difference - gradient)));
  const x = `${symbolOf(t.name)}${bracketed(pointed.index)}`;
  const [seed, ...others] = computation.seeds;
  const loss = others.length || seed.shape.length ? "L" : symbolOf(seed.name);
  section.querySelector("h2").textContent = `d${loss} / d${x}, by differences`;
  drawH(section);
  plotTimer = setTimeout(() => drawPlot(section, t.name, place, gradient), 30); // the numbers come first
}

function drawH(section) {
  section.querySelector(".h").replaceChildren("h = ", ...inTens(state.h));
  section.querySelector("input").setAttribute("aria-valuetext", `h = ${state.h.toExponential(1)}`);
}

function buildDifference(section) {
  const range = {min: -12, max: -1, step: 0.25, value: Math.log10(state.h)};
  const slider = element("input", {type: "range", ...range, "aria-label": "h"});
  slider.addEventListener("input", () => { state.h = 10 ** Number(slider.value); drawDifference(); });
  const row = (name, of) => element("tr", {}, element("th", {scope: "row"}, name), element("td", {class: of}));
  const plot = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  plot.setAttribute("role", "img");
  plot.setAttribute("viewBox", "0 0 320 142");
  section.append(
    element("h2"),
    element("div", {class: "formula"}, formula("(L(x + h) - L(x - h)) / {2 h}")),
    element("table", {class: "compare"},
      element("caption", {class: "unseen"}, "Difference and gradient"),
      element("tbody", {}, row("differences", "of-differences"), row("backward", "of-backward"), row("error", "of-error"))),
    plot, element("label", {class: "h-slider"}, slider, element("span", {class: "h"})),
  );
}

function svg(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(text);
  return made;
}

/** The error for each h: on the left what rounding does, on the right what h leaves out. */
function drawPlot(section, name, place, gradient) {
  const plot = section.querySelector("svg");
  const errors = EXPONENTS.map(e => Math.abs(differenceAt(name, place, 10 ** e) - gradient));
  const heights = errors.map(error => Number.isFinite(error) ? Math.log10(Math.max(error, 1e-16)) : NaN);
  const known = heights.filter(Number.isFinite);
  const low = Math.floor(Math.min(...known, -10)), high = Math.max(low + 1, Math.ceil(Math.max(...known, -2)));
  const x = e => 34 + (e + 12) / 11 * 276, y = height => 122 - (height - low) / (high - low) * 98;
  const points = EXPONENTS.flatMap((e, i) => Number.isFinite(heights[i]) ? [[x(e), y(heights[i])]] : []);
  const best = EXPONENTS[heights.indexOf(Math.min(...known))];
  const now = EXPONENTS.reduce((a, b) => Math.abs(b - Math.log10(state.h)) < Math.abs(a - Math.log10(state.h)) ? b : a);
  const nowHeight = heights[EXPONENTS.indexOf(now)];
  const least = Math.min(...errors.filter(Number.isFinite)).toExponential(0);
  plot.setAttribute("aria-label", `The error for h from 1e-12 to 1e-1: least, ${least}, near h = 1e${Math.round(best)}; to `
    + "the left rounding makes it larger, to the right truncation.");
  plot.replaceChildren(
    svg("line", {x1: 34, y1: 122, x2: 310, y2: 122, class: "axis"}),
    ...[-12, -9, -6, -3, -1].map(e => svg("text", {x: x(e), y: 137, class: "tick", "text-anchor": "middle"}, `1e${e}`)),
    ...[low, high].map(e => svg("text", {x: 30, y: y(e) + 4, class: "tick", "text-anchor": "end"}, `1e${e}`)),
    svg("text", {x: 40, y: 12, class: "side"}, "rounding"),
    svg("text", {x: 308, y: 12, class: "side", "text-anchor": "end"}, "truncation"),
    svg("polyline", {points: points.map(p => p.map(v => v.toFixed(1)).join(",")).join(" "), class: "curve"}),
    ...(Number.isFinite(nowHeight) ? [svg("circle", {cx: x(now), cy: y(nowHeight), r: 4.5, class: "now"})] : []),
  );
}

/* ------------------------------------------------------------------------------------------------ edits and switches */

const say = text => { byId("message").textContent = text; byId("message").classList.toggle("is-shown", Boolean(text)); };
const NUMBER = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i, START_OF_NUMBER = /^\s*[+-]?\d*\.?\d*(e[+-]?)?\s*$/i;
const parsed = text => NUMBER.test(text.replace("−", "-")) ? Number(text.replace("−", "-")) : NaN;
const snapshot = () => ({edits: new Map(state.edits), switches: state.switches.slice()});

let editing = null; // {cell}: the edit under way, which is one for undo

function edit(cell, x) {
  const {name} = cell.grid.t;
  if (x === Number(cell.getAttribute("data-value"))) return;
  if (!editing || editing.cell !== cell) { editing = {cell}; state.past.push(snapshot()); }
  const data = (state.edits.get(name) || pass.values.get(name).data).slice();
  data[cell.place] = x;
  state.edits.set(name, data);
  update();
}

function typed(cell) {
  const x = parsed(cell.value), isNumber = Number.isFinite(x);
  if (isNumber || START_OF_NUMBER.test(cell.value)) cell.removeAttribute("aria-invalid");
  else cell.setAttribute("aria-invalid", "true");
  if (!isNumber) return;
  say("");
  edit(cell, x);
}

/** What was followed while it was typed is taken back. */
function takeBack(cell) {
  if (!editing || editing.cell !== cell) return;
  editing = null;
  Object.assign(state, state.past.pop());
  update();
}

/** What was typed becomes what is shown; if it is no number, the old one comes back. */
function settle(cell, isLeft) {
  const text = cell.value, isUntouched = text === cell.getAttribute("data-value");
  if (!isUntouched && !Number.isFinite(parsed(text)) && text !== shown(Number(cell.getAttribute("data-value")))) {
    takeBack(cell);
    say(`${cell.label}: “${text}” is no finite number; it stays ${shown(Number(cell.getAttribute("data-value")))}.`);
    cell.setAttribute("aria-invalid", "true");
    if (isLeft && cell.value === "") { // emptied, perhaps to be filled in a moment
      setTimeout(() => { if (cell !== document.activeElement && cell.value === "") settleText(cell); }, 1500);
      return;
    }
  } else cell.removeAttribute("aria-invalid");
  editing = null;
  settleText(cell);
}

const settleText = cell => {
  const exact = cell.getAttribute("data-value");
  cell.value = cell === document.activeElement ? exact : shown(Number(exact));
};

function undo() {
  const before = state.past.pop();
  if (!before) return;
  Object.assign(state, before);
  editing = null;
  drawSwitchValues();
  update();
  refreshInputs();
}

function reset() {
  if (!state.past.length) return;
  state.past.push(snapshot());
  state.edits = new Map();
  state.switches = (extras.switches || []).map(s => s.number ? Number(s.number.value) : 0);
  editing = null;
  drawSwitchValues();
  update();
  refreshInputs();
}

function refreshInputs() {
  for (const grid of grids.values()) {
    if (grid.isEditable) grid.cells.forEach(cell => { cell.removeAttribute("aria-invalid"); settleText(cell); });
  }
  say("");
}

const switchFields = [];

function drawSwitches() {
  const box = byId("switches");
  const isBlocked = set => computation.obstacle(set.step || set.tensor);
  (extras.switches || []).forEach((s, i) => {
    const sets = s.number ? [s.number] : s.choices.flatMap(choice => choice.sets);
    const typing = {type: "text", inputmode: "decimal", autocomplete: "off"};
    const field = s.number ? element("input", {...typing, value: numberText(state.switches[i])})
      : element("select", {}, ...s.choices.map((choice, k) => element("option", {value: k}, choice.label)));
    field.id = `switch-${s.name}`;
    field.disabled = sets.some(isBlocked);
    field.addEventListener("change", () => turn(i, s, field));
    switchFields.push(field);
    box.append(element("label", {}, s.label, field));
  });
  if ((extras.mistakes || []).length) {
    const field = element("select", {id: "mistakes"}, element("option", {value: -1}, "none"),
      ...extras.mistakes.map((mistake, k) => element("option", {value: k}, mistake.title || mistake.name)));
    field.disabled = extras.mistakes.some(mistake => Object.keys(mistake.steps || {}).some(isBlockedStep));
    field.addEventListener("change", () => { state.mistake = Number(field.value); update(); drawStep(); });
    box.append(element("label", {class: "mistakes"}, "Make a mistake", field));
  }
}

const isBlockedStep = name => computation.steps.some(step => step.problem && step.sent.some(Boolean)) && Boolean(name);

function turn(i, s, field) {
  const value = s.number ? parsed(field.value) : Number(field.value);
  if (!Number.isFinite(value)) {
    say(`${s.label}: “${field.value}” is no finite number; it stays ${state.switches[i]}.`);
    field.value = numberText(state.switches[i]);
    return;
  }
  if (value === state.switches[i]) return;
  say("");
  state.past.push(snapshot());
  state.switches[i] = value;
  update();
}

const numberText = x => String(Number(x.toPrecision(6)));
const drawSwitchValues = () => switchFields.forEach((field, i) => { field.value = numberText(state.switches[i]); });

/* ------------------------------------------------------------------------------------------------ mistakes and shares */

function drawMistake() {
  const section = byId("mistake"), mistake = (extras.mistakes || [])[state.mistake];
  section.hidden = !mistake;
  document.body.classList.toggle("mistaken", Boolean(mistake));
  if (!mistake) return;
  const counts = names.flatMap(name => {
    const grid = gridOf({name, kind: "gradient"}), wrong = grid ? wrongPlaces(name).size : 0;
    return wrong ? [`${wrong} of ${grid.cells.length} in d${symbolOf(name)}`] : [];
  });
  section.replaceChildren(
    element("h2", {}, element("span", {}, "Mistake"), ` ${mistake.title || mistake.name}`),
    ...paragraphs(mistake.sentence),
    element("p", {class: "counts"}, counts.length ? `Wrong: ${counts.join(", ")}.` : "No number turns wrong."),
    ...(mistake.check ? [
      element("h3", {}, "What the gradient check says"), element("pre", {tabindex: 0}, mistake.check),
    ] : []),
  );
}

function listShares() {
  if (extras.shares) return extras.shares;
  return [...computation.tensors.values()].filter(t => t.uses.length > 1).map(t => ({
    tensor: t.name,
    through: [...new Set(t.uses.map(use => use.step.output.name))].map(name => ({label: symbolOf(name), tensor: name})),
  }));
}

const norm = data => Math.sqrt(data.reduce((sum, x) => sum + x * x, 0));
const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

function drawShares() {
  const section = byId("shares"), tables = listShares().filter(({tensor}) => pass.gradients && pass.gradients.has(tensor));
  section.hidden = !tables.length;
  section.replaceChildren(section.firstElementChild, element("div", {class: "row"}, ...tables.map(({tensor, through}) => {
    const total = pass.gradients.get(tensor).data, size = norm(total);
    const shares = computation.shares(pass, tensor, through);
    const rest = total.map((x, i) => x - shares.reduce((sum, share) => sum + share.data[i], 0));
    const row = (label, data) => {
      const part = inner(data, total) / (size * size), cosine = part * size / norm(data);
      const bar = element("span", {class: "bar"});
      bar.style.setProperty("--part", Math.min(Math.abs(part), 1).toFixed(3));
      bar.dataset.sign = part < 0 ? "negative" : "positive";
      const percent = Number.isFinite(part) ? `${(100 * part).toFixed(1)} %` : "none";
      return element("tr", {}, element("th", {scope: "row"}, label), element("td", {}, shown(norm(data))),
        element("td", {}, Number.isFinite(cosine) ? cosine.toFixed(3) : "none"),
        element("td", {class: "part"}, bar, percent));
    };
    const head = ["through", "norm", "cosine", "share"].map(text => element("th", {scope: "col"}, text));
    const isMissing = norm(rest) > 1e-9 * size;
    return element("div", {class: "scroll"}, element("table", {class: "shares"},
      element("caption", {}, "Where ", element("b", {}, symbol({name: tensor, kind: "gradient"})), " comes from"),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...shares.map(share => row(share.label, share.data)),
        ...(isMissing ? [row("other ways", rest)] : []), row("together", total))));
  })));
}

/* ------------------------------------------------------------------------------------------------ all of it */

function update() {
  compute();
  const traced = computation.asTraced, none = new Set();
  for (const {t, kind} of grids.values()) {
    const grid = gridOf({name: t.name, kind});
    if (kind === "value") grid.show(pass.values.get(t.name).data, traced.values.get(t.name).data, none);
    else {
      const expected = right.gradients.get(t.name).data;
      const before = state.mistake < 0 ? traced.gradients.get(t.name).data : pass.gradients.get(t.name).data;
      grid.show(pass.gradients.get(t.name).data, before, wrongPlaces(t.name), expected);
    }
  }
  byId("undo").disabled = !state.past.length;
  byId("reset").disabled = isAsTraced() || state.isForced && !state.edits.size && !activeSets().length;
  document.body.classList.toggle("edited", !isAsTraced());
  drawMistake();
  drawShares();
  drawPointed();
}

/** The cell in which something happened: a td, or the input in it; undefined elsewhere. */
function cellOf({target}) {
  const td = target.closest && target.closest("td");
  return [target, td, td && td.firstElementChild].find(node => node && node.grid);
}

function focusCell(cell) {
  cell.grid.cells.forEach(other => { other.tabIndex = other === cell ? 0 : -1; });
  cell.focus();
}

/** Arrow keys within a matrix; in a number that is being edited, when the caret is at its end. */
function moveInGrid(event, cell) {
  const {shape} = cell.grid.t, columns = shape[shape.length - 1] ?? 1;
  const by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[event.key];
  const column = cell.place % columns;
  const ends = {Home: cell.place - column, End: cell.place - column + columns - 1}[event.key];
  if (by === undefined && ends === undefined) return;
  if (cell.tagName === "INPUT" && event.key !== "ArrowUp" && event.key !== "ArrowDown") {
    const isAll = cell.selectionStart === 0 && cell.selectionEnd === cell.value.length;
    const isAtEnd = cell.selectionStart === cell.selectionEnd
      && cell.selectionStart === (event.key === "ArrowLeft" ? 0 : cell.value.length) && event.key.startsWith("Arrow");
    if (!isAll && !isAtEnd) return;
  }
  const leaves = by === -1 && column === 0 || by === 1 && column === columns - 1;
  const next = cell.grid.cells[ends ?? cell.place + by];
  event.preventDefault();
  if (next && !leaves) focusCell(next);
}

function listen() {
  const main = byId("numbers");
  main.addEventListener("pointerover", event => { const cell = cellOf(event); if (cell && !editing) point(cell); });
  main.addEventListener("pointerleave", () => { // back to the number chosen, so that the way to its slider does not lose it
    const chosen = document.activeElement;
    if (chosen.grid) point(chosen);
  });
  main.addEventListener("click", event => { const cell = cellOf(event); if (cell) focusCell(cell); });
  main.addEventListener("focusin", event => {
    const cell = cellOf(event);
    if (!cell) return;
    if (cell.tagName === "INPUT" && !cell.hasAttribute("aria-invalid")) {
      settleText(cell);
      cell.select();
    }
    cell.grid.cells.forEach(other => { other.tabIndex = other === cell ? 0 : -1; });
    point(cell, true);
  });
  main.addEventListener("focusout", ({target}) => { if (target.grid && target.tagName === "INPUT") settle(target, true); });
  main.addEventListener("input", event => { if (event.target.grid) typed(event.target); });
  main.addEventListener("keydown", event => {
    const cell = cellOf(event);
    if (!cell) return;
    if (cell.tagName === "INPUT" && event.key === "Enter") {
      typed(cell);
      settle(cell, false);
      cell.select();
    }
    if (cell.tagName === "INPUT" && event.key === "Escape") {
      takeBack(cell);
      cell.removeAttribute("aria-invalid");
      settleText(cell);
      cell.select();
      say("");
    }
    moveInGrid(event, cell);
  });
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isInField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName), isFree = !isInField && !event.target.grid;
    const by = {"[": -1, "]": 1}[event.key] ?? (isFree ? {ArrowLeft: -1, ArrowRight: 1}[event.key] : undefined);
    if (by === undefined || event.target.closest && event.target.closest("pre, .scroll:focus")) return;
    event.preventDefault();
    goTo(state.step + by);
  });
  byId("previous").addEventListener("click", () => goTo(state.step - 1));
  byId("next").addEventListener("click", () => goTo(state.step + 1));
  byId("step").addEventListener("input", event => goTo(Number(event.target.value)));
  byId("undo").addEventListener("click", undo);
  byId("reset").addEventListener("click", reset);
}

/** How high the controls stand, for what sticks below them; and what of them stands above the steps: where it is narrow,
    that scrolls away. */
function measureBar() {
  const bar = byId("controls").offsetHeight, above = byId("previous").offsetTop;
  document.documentElement.style.setProperty("--bar", `${bar}px`);
  document.documentElement.style.setProperty("--above", `${Math.max(above - 12, 0)}px`);
}

function drawAll() {
  byId("title").textContent = extras.title || trace.title;
  byId("introduction").replaceChildren(...paragraphs(extras.introduction));
  byId("step").max = steps.length;
  const blocked = computation.steps.filter(step => step.problem);
  for (const step of blocked) {
    const closed = names.filter(name => obstacles.get(name) === step && computation.tensors.get(name).kind === "input");
    const then = closed.length ? `, and ${closed.map(symbolOf).join(", ")} cannot be edited` : "";
    byId("introduction").append(element("p", {class: "problem"},
      `${symbolOf(step.output.name)}: ${step.problem}. Its numbers are the trace's${then}.`));
  }
  byId("foot").replaceChildren(...paragraphs(extras.notes), ...paragraphs([
    "Keys: Tab goes from matrix to matrix, the arrow keys go within one; [ and ] go from step to step, as the arrow keys "
    + "do where nothing else needs them. Enter takes what was typed, Escape leaves it.",
    "Until something is edited the numbers are those of the trace; then this page computes them, in float64. Masks, "
    + "indices and other constants stay what they were in the trace.",
  ]));
  drawGrids();
  drawSwitches();
  listen();
  new ResizeObserver(measureBar).observe(byId("controls"));
  update();
  drawStep();
}

drawAll();
