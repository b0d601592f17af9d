"use strict";
/* The number pointed at: its terms, and the cells that they come from. */

function point(cell, isSpoken = false) {
  const next = {name: cell.grid.t.name, kind: cell.grid.kind, index: unravel(cell.grid.t.shape, cell.place)};
  const key = one => one && `${one.kind} ${one.name} ${one.index}`;
  if (key(next) === key(state.pointed) && !isSpoken) return;
  state.pointed = next;
  drawPointed(isSpoken);
  if (!state.step) drawFormulas();
}

let lit = []; // cells that are marked

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
    ...(isWrong ? [element("p", {class: "problem"}, `Wrong: it should be ${expected()}.`)] : []), ...lines,
  );
  if (isSpoken) byId("spoken").textContent = lines.map(line => line.textContent).join(" ").slice(0, 400);
  drawDifference();
}

/** A term in which numbers of joined steps are written out. */
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
  if (explained.exchanged) return [element("p", {}, `By mistake, this is the gradient of ${symbolOf(explained.exchanged)}.`)];
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
  if (copied && computation.tensors.has(copied.of.name)) { // the same number, as dS from dM: its terms follow at once
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
    lines.push(line(`= ${sum} = `, element("b", {}, shown(value)), `, the sum of ${parts.length} contributions`));
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
