/* The number pointed at: its terms, and the cells that they come from. */

function point(cell, isSpoken = false) {
  const next = {name: cell.grid.t.name, kind: cell.grid.kind, index: unravel(cell.grid.t.shape, cell.place)};
  const key = one => one && `${one.kind} ${one.name} ${one.index}`;
  if (key(next) === key(state.pointed) && !isSpoken) return;
  state.pointed = next;
  if (!state.step) openBox(cell.box);
  drawPointed(isSpoken);
  if (!state.step) drawFormulas();
}

let marked = []; // cells
const mark = (cell, role) => { if (cell) { cell.box.classList.add(role); marked.push(cell.box); } };

function drawPointed(isSpoken = false) {
  marked.forEach(box => box.classList.remove("pointed", "source"));
  marked = [];
  const section = byId("number"), {pointed} = state;
  document.body.classList.toggle("pointing", Boolean(pointed));
  section.hidden = !pointed;
  drawDifference();
  drawBars();
  if (!pointed) return;
  const {name, kind, index} = pointed, cell = cellAt(pointed);
  mark(cell, "pointed");
  if (isVeiled(cell)) {
    section.replaceChildren(element("h2", {}, symbol(pointed), placed(index)), element("p", {}, "Veiled until you answer."));
    return;
  }
  const value = (kind === "value" ? pass.values : pass.gradients).get(name).data[cell.place];
  const lines = writeOut(contributionsTo(pointed), value);
  const close = button("×", () => { state.pointed = null; drawPointed(); drawFormulas(); }, {class: "close", "aria-label": "Close"});
  const wrong = cell.box.classList.contains("wrong")
    ? [element("p", {class: "problem"}, `Wrong: it should be ${shown(right.gradients.get(name).data[cell.place])}.`)] : [];
  const soFar = cell.dataset.soFar === undefined ? [] : [element("p", {}, `${shown(Number(cell.dataset.soFar))} after this step.`)];
  section.replaceChildren(
    close, element("h2", {}, symbol(pointed), placed(index)), element("p", {class: "hero"}, shown(value)),
    element("p", {class: "exact"}, String(value)), ...readAloud(pointed, value), ...soFar, ...wrong, ...lines,
  );
  if (isSpoken) byId("spoken").textContent = lines.map(line => line.textContent).join(" ").slice(0, 400);
}

/** A term in which numbers of joined steps are written out. */
function unfold(node, of = pass) {
  if (node.is === "source" && joined.has(node.of.name)) {
    const {parts} = computation.explain(of, node.of.name, node.index, node.of.kind);
    if (parts.length && parts.every(part => part.term)) {
      const sent = parts.map(part => unfold(part.term, of));
      return sent.length === 1 ? sent[0] : sumOf(sent);
    }
  }
  return {...node, parts: node.parts.map(part => unfold(part, of))};
}

/** What the sign of a gradient means, in words. */
function readAloud({name, kind, index}, value) {
  const {data} = pass.gradients.get(name) || {data: []}, isSmall = Math.abs(value) <= 1e-9 * Math.max(...data.map(Math.abs));
  const says = kind === "gradient" && !isSmall && ((extras.aloud || {})[name] || {})[value < 0 ? "negative" : "positive"];
  const {rows = [], columns = []} = extras.labels[name] || {}, row = last(lead(index)), column = last(index);
  const labelled = {"{row}": rows[row] ?? row, "{column}": columns[column] ?? column};
  return says ? [derivation(says.replace(/\{row\}|\{column\}/g, found => labelled[found]), symbolOf)] : [];
}

const line = (...nodes) => element("p", {class: "line"}, ...nodes);
const problem = text => element("p", {class: "problem"}, text);

/** How a number is computed, as paragraphs; marks the cells that it comes from. */
function writeOut(explained, value) {
  if (explained.problem) {
    const reads = explained.reads.map(t => symbolOf(t.name)).join(", ");
    return [problem(`${explained.problem}.`), element("p", {}, `It reads ${reads}.`)];
  }
  const {parts} = explained;
  if (!parts.length) {
    return [element("p", {}, explained.isSeed ? "Backward starts here." : explained.kind ? `One of the ${explained.kind}s.`
      : "No step sends a gradient here.")];
  }
  parts.flatMap(part => part.term ? sourcesOf(part.term) : []).forEach(source => mark(cellAt(source), "source"));
  const copied = parts.length === 1 && parts[0].term && parts[0].term.is === "source" ? parts[0].term : null;
  if (copied && computation.tensors.has(copied.of.name)) { // the same number, as dS from dM: its terms follow at once
    const from = contributionsTo({...copied.of, index: copied.index});
    if (from.parts.length) return [line("= ", symbol(copied.of), placed(copied.index)), ...writeOut(from, value)];
  }
  if (parts.length === 1) return writePart(parts[0]);
  return [
    line(`= ${parts.map((part, i) => inSum(part.value, i)).join(" + ")} = `, element("b", {}, shown(value)),
      `, the sum of ${parts.length} contributions, in the order in which they arrive`),
    ...parts.flatMap((part, i) => [element("h3", {}, arrival(parts, i)), ...writePart(part)]),
  ];
}

const inSum = (x, i) => i && x < 0 ? `(${shown(x)})` : shown(x);

/** The step of a contribution, and what was there before it, and after. */
function arrival(parts, i) {
  const {by} = parts[i], number = 1 + steps.indexOf(by), through = `through ${symbolOf(by.name)}`;
  const [before, after] = [i, i + 1].map(count => parts.slice(0, count).reduce((sum, part) => sum + part.value, 0));
  const sum = i ? `${shown(before)} + ${inSum(parts[i].value, i)} = ${shown(after)}` : `${shown(after)}, the first`;
  return `${number === state.step ? "This step" : `Step ${number}`}, ${through}: ${sum}`;
}

/** A number in a term, which marks its cell while it is pointed at, and leads to it by a click. */
function reference(node, text) {
  const source = cellAt({name: node.of.name, kind: node.of.kind, index: node.index});
  const hover = isOver => source.box.classList.toggle("source-hover", isOver);
  return element("span", {class: "ref", click: () => point(source), pointerenter: () => hover(true), pointerleave: () => hover(false)}, ...(isVeiled(source) && text.length === 1 ? ["?"] : text));
}

/** What one step contributes: its term in names and in numbers, and the asides of it. */
function writePart(part) {
  if (!part.term) return [problem(`${shown(part.value)}: ${part.problem}.`)];
  const writers = [false, true].map(inNumbers => new Written(inNumbers, symbol, reference));
  const written = writers.map(writer => writer.nodes(part.term));
  const texts = written.map(nodes => nodes.map(node => node.textContent ?? node).join(""));
  const lines = [line("= ", ...written[0])];
  if (texts[0] !== texts[1]) lines.push(line("= ", ...written[1]));
  if (texts[1] !== shown(part.term.value)) lines.push(line("= ", element("b", {}, shown(part.term.value))));
  for (const aside of asidesOf(part.term).values()) {
    const [inNames, inNumbers] = writers.map(writer => writer.nodes(unfold(aside.written())));
    lines.push(element("p", {class: "line aside"}, element("em", {}, aside.name), bracketed(aside.index),
      " = ", ...inNames, " = ", ...inNumbers, " = ", shown(aside.value)));
  }
  return lines;
}
