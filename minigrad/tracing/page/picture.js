"use strict";
/* Where the matrices stand: in the picture of the whole, each gradient below its value; in a step, what it reads and writes. */

/** The tensors of which a tensor is computed; in place of a joined step's result, what that is computed of. */
function madeOf(name) {
  const {step} = computation.tensors.get(name);
  const inputs = step ? computation.inputsOf(step).map(input => input.name) : [];
  return inputs.flatMap(input => joined.has(input) ? madeOf(input) : [input]);
}

const kindsOf = name => ["value", "gradient"].filter(kind => computation.tensors.get(name)[kind]);

/** The ways of values forward and of gradients backward: [{kind, from, to}], names of tensors. */
function listFlows() {
  const found = new Map();
  for (const step of steps) {
    const {reads, writes} = touchedBy(step), kind = step.isBackward ? "gradient" : "value";
    const [from, to] = [reads, writes].map(list => list.filter(one => one.kind === kind).map(one => one.name));
    for (const a of from) for (const b of to) found.set(`${kind} ${a} ${b}`, {kind, from: a, to: b});
  }
  return [...found.values()];
}

/** The rows of the picture: those of the extras, then the tensors left out, each input before the first step that reads it. */
function listRows() {
  const order = computation.steps.flatMap(step => [...computation.inputsOf(step), step.output]).map(t => t.name);
  const rows = extras.layout || [], placed = new Set(rows.flat());
  const rest = [...new Set([...order, ...names])].filter(name => !placed.has(name));
  return [...rows, rest].map(row => row.filter(name => !joined.has(name) && !extras.hidden.includes(name)));
}

/** The tensors in groups; a group starts with a tensor that is computed of one in the group before. */
function listGroups(rows, flows) {
  const groups = [[]];
  for (const name of rows.flat()) {
    if (flows.some(({kind, from, to}) => kind === "value" && to === name && groups.at(-1).includes(from))) groups.push([]);
    groups.at(-1).push(name);
  }
  return groups;
}

const MOST_COLUMNS = 30; // of numbers, with labels, that fit into a row on a screen

function drawPicture() {
  const rows = listRows(), flows = listFlows(), groups = listGroups(rows, flows), starts = new Set(groups.slice(1).map(group => group[0]));
  const arrow = kind => element("span", {class: "arrow", "data-of": kind, "aria-hidden": "true"}, kind === "value" ? "→" : "←");
  const column = tensors => element("div", {class: "tensor"}, ...tensors.flatMap(name => [
    ...(starts.has(name) ? kindsOf(name).map(arrow) : []),
    ...kindsOf(name).map(kind => new Grid(computation.tensors.get(name), kind).figure)]));
  const inColumns = row => row.reduce((all, name) => { // a tensor without a value goes below one without a gradient
    const before = all.at(-1), isBelow = before && `${kindsOf(before[0])} ${kindsOf(name)}` === "value gradient";
    return isBelow ? [...all.slice(0, -1), [...before, name]] : [...all, [name]];
  }, []);
  const picture = byId("picture"), between = names.filter(name => joined.has(name) && !extras.hidden.includes(name));
  for (const row of rows) if (row.length) picture.append(element("div", {class: "row"}, ...inColumns(row).map(column)));
  if (between.length) {
    picture.append(element("details", {class: "between"}, element("summary", {}, "Intermediate results"),
      element("div", {class: "row"}, ...inColumns(between).map(column))));
  }
  picture.append(element("div", {class: "turn", "aria-hidden": "true"}, "↓"));
  const columns = rows.flat().reduce((sum, name) => sum + (last(computation.tensors.get(name).shape) ?? 1), 0);
  const isInARow = rows.filter(row => row.length).length === 1, isShort = columns <= MOST_COLUMNS;
  document.body.classList.toggle("in-a-row", isInARow);
  document.body.classList.toggle("compact", isInARow && isShort && Object.keys(extras.labels).length > 0);
  byId("hint").hidden = computation.seeds.length > 0;
  drawMap(groups, flows);
}

/** The heights of a step's matrices, line by line. */
function listLines() {
  const lines = new Map();
  for (const {figure} of grids.values()) {
    if (!figure.matches("[data-role], .opened")) continue;
    const {offsetTop: top, offsetHeight: height} = figure;
    lines.set(top, [...(lines.get(top) || []), height]);
  }
  return [...lines.values()];
}

const LOWEST = 560; // of a screen in pixels that all matrices of a step have to be on; a lower one, or a page at 200%, scrolls

/** In a step, makes matrices as large as they can be on the screen all at once; if even small ones are too high, they get
    scroll boxes, side by side where these would be very low. */
function fitToScreen() {
  if (!state.step) return;
  const stage = byId("stage");
  const room = innerHeight - barOnScreen() - (isNarrow() ? 96 : 16); // with the start of the panel below them
  for (const isCrowded of [false, true]) { // then without the picture of a row
    byId("picture").classList.toggle("crowded", isCrowded);
    fitMatrices(stage, room);
    const isCut = [...stage.querySelectorAll(".opened .scroll")].some(box => box.scrollHeight > box.clientHeight);
    if (stage.offsetHeight <= room && !isCut || innerHeight < LOWEST) break;
  }
  stage.scrollIntoView({block: isNarrow() ? "start" : "nearest", behavior: "instant"}); // below the controls, by scroll-padding
}

function fitMatrices(stage, room) {
  for (const size of isNarrow() ? ["plain", "dense"] : ["roomy", "plain", "tight"]) {
    stage.className = size;
    stage.style.removeProperty("--most");
    if (innerHeight < LOWEST) break;
    const lines = listLines(), total = most => lines.reduce((sum, line) => sum + Math.min(most, Math.max(...line)), 0);
    let most = Math.max(...lines.flat());
    const wanted = room - (stage.offsetHeight - total(most));
    while (most > 40 && total(most) > wanted) most -= 1;
    do stage.style.setProperty("--most", `${most}px`); // lower where scroll bars have moved a matrix to another line
    while (stage.offsetHeight > room && (most *= 0.9) > 40);
    if (most >= Math.max(...lines.flat()) && (size !== "roomy" || lines.length < 3) || size === "plain" && !isNarrow() && most > 170) break;
  }
}
