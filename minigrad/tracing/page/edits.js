/* Edits and switches. */

const say = text => { byId("message").textContent = text; byId("message").classList.toggle("is-shown", Boolean(text)); };
const NUMBER = /^\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i, START_OF_NUMBER = /^\s*[+-]?\d*\.?\d*(e[+-]?)?\s*$/i;
const parsed = text => NUMBER.test(text.replace("−", "-")) ? Number(text.replace("−", "-")) : NaN;
const snapshot = () => ({edits: new Map(state.edits), switches: state.switches.slice()});

/** In the address, but not what a station tries out. */
const keepNumbers = () => keepInAddress(inAddress(isTrial() ? trial.before : state));

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

const PIXELS = 8; // that a number is dragged for each step of a tenth, or with Shift of a hundredth

/** Drag a number to the left or to the right. */
function listenToDrags(main) {
  let drag = null; // {cell, from, start}: where it began, and with which number
  main.addEventListener("pointerdown", event => {
    const cell = cellOf(event);
    drag = cell && cell.tagName === "INPUT" && event.button === 0 ? {cell, from: event.clientX, start: Number(cell.getAttribute("data-value"))} : null;
  });
  addEventListener("pointermove", event => {
    const steps = drag ? Math.trunc((event.clientX - drag.from) / PIXELS) : 0;
    if (!drag || !drag.isMoving && !steps) return;
    drag.isMoving = true;
    event.preventDefault();
    const {cell, start} = drag, x = Number((start + steps * (event.shiftKey ? 0.01 : 0.1)).toPrecision(12));
    cell.value = String(x);
    edit(cell, x);
    cell.select();
  });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { if (drag && drag.isMoving) settle(drag.cell, false); drag = null; });
}

/** Undo what was typed so far. */
function takeBack(cell) {
  if (!editing || editing.cell !== cell) return;
  editing = null;
  Object.assign(state, state.past.pop());
  update();
}

/** End typing: what is not a number is replaced by the old one. */
function settle(cell, isLeft) {
  const text = cell.value, isUntouched = text === cell.getAttribute("data-value");
  if (!isUntouched && !Number.isFinite(parsed(text)) && text !== shown(Number(cell.getAttribute("data-value")))) {
    takeBack(cell);
    say(`${cell.label}: “${text}” is not a finite number; still ${shown(Number(cell.getAttribute("data-value")))}.`);
    cell.setAttribute("aria-invalid", "true");
    if (isLeft && cell.value === "") { // perhaps emptied to be filled in a moment
      setTimeout(() => { if (cell !== document.activeElement && cell.value === "") settleText(cell); }, 1500);
      return;
    }
  } else cell.removeAttribute("aria-invalid");
  editing = null;
  keepNumbers();
  settleText(cell);
}

function confirmEdit(cell) {
  typed(cell);
  settle(cell, false);
  cell.select();
}

function cancelEdit(cell) {
  takeBack(cell);
  cell.removeAttribute("aria-invalid");
  settleText(cell);
  cell.select();
  say("");
}

const settleText = cell => {
  const exact = cell.getAttribute("data-value");
  cell.value = cell === document.activeElement ? exact : shown(Number(exact));
};

function restore(before) {
  Object.assign(state, before);
  editing = null;
  drawSwitchValues();
  update();
  refreshInputs();
}

function undo() {
  const before = state.past.pop();
  if (before) restore(before);
}

function reset() {
  if (!isEdited()) return;
  state.past.push(snapshot());
  restore(asLoaded());
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
  const isBlocked = set => (set.step || set.tensor) && computation.obstacle(set.step || set.tensor);
  extras.switches.forEach((s, i) => {
    const sets = s.number ? [s.number] : s.choices.flatMap(choice => choice.sets);
    const common = {id: `switch-${s.name}`, change: () => turn(i, s, field)};
    const field = s.number ? element("input", {...common, type: "text", inputmode: "decimal", value: numberText(state.switches[i])})
      : element("select", common, ...s.choices.map((choice, k) => element("option", {value: k}, choice.label)));
    field.disabled = sets.some(isBlocked);
    switchFields.push(field);
    box.append(element("label", {}, s.label, field));
  });
  if (extras.mistakes.length) {
    const field = element("select", {id: "mistakes", change: () => { state.mistake = Number(field.value); update(); }}, element("option", {value: -1}, "none"),
      ...extras.mistakes.map((mistake, k) => element("option", {value: k}, mistake.title || mistake.name)));
    field.disabled = computation.steps.some(step => step.problem && step.sent.some(Boolean));
    box.append(element("label", {class: "mistakes"}, "Make a mistake", field));
  }
}

function turn(i, s, field) {
  const value = s.number ? parsed(field.value) : Number(field.value);
  if (!Number.isFinite(value)) {
    say(`${s.label}: “${field.value}” is not a finite number; still ${state.switches[i]}.`);
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
