"use strict";
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
  return [
    ...order.flatMap(group => [...ownSteps(group[1], false), make(group, false)]),
    ...order.filter(([, steps]) => steps.some(step => step.sent.some(Boolean))).reverse().flatMap(
      group => [...ownSteps(group[1], true), make(group, true)]),
  ];
}

const steps = listSteps();

function goTo(step) {
  state.step = Math.min(Math.max(step, 0), steps.length);
  keepInAddress("step", state.step);
  state.pointed = null;
  drawPointed();
  drawStep();
  const written = [...document.querySelectorAll("[data-role=written]")];
  const shown = written.find(figure => !figure.closest("details")) || written[0];
  if (shown) shown.scrollIntoView({block: "nearest"}); // between the controls and the panel, by the page's scroll-padding
}

function drawStep() {
  const current = steps[state.step - 1];
  byId("step").value = state.step;
  byId("previous").disabled = state.step === 0;
  byId("next").disabled = state.step === steps.length;
  const direction = current && (current.isBackward ? "backward" : "forward");
  const name = current ? `${state.step} of ${steps.length}, ${direction}: ${current.title}` : `All ${steps.length} steps`;
  byId("step-name").textContent = name;
  byId("step-name").dataset.step = state.step;
  byId("step").setAttribute("aria-valuetext", name);
  document.body.classList.toggle("stepping", Boolean(current));
  for (const {figure} of grids.values()) delete figure.dataset.role;
  drawFormulas();
  if (!current) return;
  const {reads, writes} = computation.touches(current, pass);
  const figures = list => list.map(gridOf).filter(Boolean).map(grid => grid.figure);
  const mark = (figure, role) => {
    figure.dataset.role = role;
    const details = figure.closest("details");
    if (details) details.open = true;
  };
  figures(reads).forEach(figure => mark(figure, "read"));
  figures(writes).forEach(figure => mark(figure, "written"));
}

/** The formulas of a step: those of the extras, or those of its ops in the trace's names. */
function formulaOf({steps: all, isBackward, words}) {
  if (words.formula) return [words.formula].flat().map(line => formula(line, symbolOf));
  return all.flatMap(step => {
    if (!step.op) return [element("p", {}, (isBackward ? step.backward : step.formula) || step.opName)];
    const lines = (isBackward ? (step.op.backward || []).filter((_, i) => step.sent[i]) : [step.op.formula]).flat();
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
    section.replaceChildren(element("h2", {}, "How to read this page"), ...paragraphs([
      "Point at any number, or move to it with the arrow keys, to see its terms here. The numbers that it comes from light "
      + "up.",
      "Edit a number with a dotted underline: everything that depends on it updates, forward and backward.",
      "Go through the computation step by step with the arrows above, or with the keys [ and ].",
    ]));
    return;
  }
  const touched = computation.touches(current, pass);
  const list = all => all.filter(gridOf).map(one => symbol(one)).join(", ") || "nothing";
  section.replaceChildren(
    element("h2", {}, element("span", {}, current.isBackward ? "Backward" : "Forward"), ` ${current.title}`),
    ...formulaOf(current).map(node => element("div", {class: "formula"}, node)),
    ...[current.words.derivation || []].flat().map(line => derivation(line, symbolOf)),
    element("p", {class: "touches"}, `Reads ${list(touched.reads)}. Writes ${list(touched.writes)}.`),
    ...current.steps.filter(step => step.problem).map(step => element("p", {class: "problem"}, `${step.problem}.`)),
  );
}
