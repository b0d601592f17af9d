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

/** The rows of the picture, [{title, names, open}], of which those with a title are boxes: those of the extras; the tensors left
    out, each input before the first step that reads it; and what joined steps make. */
function listBoxes() {
  const order = computation.steps.flatMap(step => [...computation.inputsOf(step), step.output]).map(t => t.name);
  const given = extras.layout || [], placed = new Set(given.flatMap(box => box.names)), isJoined = name => joined.has(name);
  const left = {names: [...new Set([...order, ...names])].filter(name => !placed.has(name) && !isJoined(name))};
  return [...given, left, {title: "Intermediate results", names: names.filter(isJoined)}]
    .map(box => ({...box, names: box.names.filter(name => !extras.hidden.includes(name))})).filter(box => box.names.length);
}

/** The tensors in groups; a group starts with a tensor that is computed of one in the group before. */
function listGroups(tensors, flows) {
  const groups = [[]];
  for (const name of tensors) {
    if (flows.some(({kind, from, to}) => kind === "value" && to === name && groups.at(-1).includes(from))) groups.push([]);
    groups.at(-1).push(name);
  }
  return groups;
}

const MOST_COLUMNS = 30; // of numbers, with labels, that fit into a row on a screen

function drawPicture() {
  const all = listBoxes(), shownNames = all.flatMap(box => box.names).filter(name => !joined.has(name));
  const flows = listFlows(), groups = listGroups(shownNames, flows), starts = new Set(groups.slice(1).map(group => group[0]));
  const arrow = kind => element("span", {class: "arrow", "data-of": kind, "aria-hidden": "true"}, kind === "value" ? "→" : "←");
  const column = tensors => element("div", {class: "tensor"}, ...tensors.flatMap(name => [
    ...(starts.has(name) ? kindsOf(name).map(arrow) : []),
    ...kindsOf(name).map(kind => new Grid(computation.tensors.get(name), kind).figure)]));
  const inColumns = row => row.reduce((all, name) => { // a tensor without a value goes below one without a gradient
    const before = all.at(-1), isBelow = before && `${kindsOf(before[0])} ${kindsOf(name)}` === "value gradient";
    return isBelow ? [...all.slice(0, -1), [...before, name]] : [...all, [name]];
  }, []);
  for (const box of all) {
    const row = element("div", {class: "row"}, ...inColumns(box.names).map(column));
    byId("picture").append(box.title ? drawBox(box, row, flows) : row);
  }
  byId("picture").append(element("div", {class: "turn", "aria-hidden": "true"}, "↓"));
  const columns = shownNames.reduce((sum, name) => sum + (last(computation.tensors.get(name).shape) ?? 1), 0);
  const isInARow = all.filter(box => !box.title).length === 1 && boxes.length < 2, isShort = columns <= MOST_COLUMNS;
  document.body.classList.toggle("in-a-row", isInARow);
  document.body.classList.toggle("boxed", boxes.length > 1);
  document.body.classList.toggle("compact", isInARow && isShort && Object.keys(extras.labels).length > 0);
  byId("hint").hidden = computation.seeds.length > 0;
  drawMap(groups, flows);
}

const boxes = []; // {node, results, sizes}: a box, the tensors in it that others are computed of, and where it says how large they are
const norm = data => Math.sqrt(data.reduce((sum, x) => sum + x * x, 0));

function drawBox({title, names, open}, row, flows) {
  const results = names.filter(name => computation.seeds.some(seed => seed.name === name)
    || flows.some(({kind, from, to}) => kind === "value" && from === name && !names.includes(to)));
  const node = element("section", {class: "box"}), sizes = element("div", {class: "sizes"});
  const opens = button(title, () => openBox(node, !node.classList.contains("open")));
  node.append(element("h2", {}, opens), sizes, row);
  boxes.push({node, results, sizes});
  openBox(node, Boolean(open));
  return node;
}

/** Open the box that something is in, or close it. */
function openBox(within, isOpen = true) {
  const node = within.closest(".box");
  if (!node) return;
  node.classList.toggle("open", isOpen);
  node.querySelector("button").setAttribute("aria-expanded", isOpen);
}

/** How large the results of boxes and their gradients are, and where something has changed, or is wrong. */
function drawSizes() {
  for (const {node, results, sizes} of boxes) {
    sizes.replaceChildren(...results.map(name => element("p", {}, ...kindsOf(name).flatMap(kind => [
      "‖", element("b", {}, ...typeset(symbol({name, kind}))), `‖ ${shown(norm(pass[`${kind}s`].get(name).data))}  `]))));
    for (const mark of ["changed", "wrong"]) node.classList.toggle(`has-${mark}`, Boolean(node.querySelector(`td.${mark}`)));
  }
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
  const below = !isNarrow() ? 16 : byId("path").querySelector("form") ? 172 : 96; // the start of the panel, or a question
  const room = innerHeight - barOnScreen() - below;
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
