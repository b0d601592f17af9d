/* What the page shows: `state` is all that a user can change, `compute` makes numbers of it. */

const data = JSON.parse(document.getElementById("data").textContent), {trace} = data;
const extras = {
  introduction: [], labels: {}, symbols: {}, steps: {}, switches: [], mistakes: [], hidden: [], ...data.extras,
};
const computation = new Computation(trace, data.expressions);
const names = [...computation.tensors.keys()];
const obstacles = new Map(names.map(name => [name, computation.obstacle(name)]));

const byId = id => document.getElementById(id);
const symbolOf = name => extras.symbols[name] || name;
/** A gradient is dX; a number that only backward derives, such as a row sum, has its own letter. */
const symbol = ({name, kind}) =>
  (kind === "gradient" && computation.asTraced.values.has(name) ? "d" : "") + symbolOf(name);
const paragraphs = text => [text ?? []].flat().map(line => derivation(line, symbolOf));
const isFloat = t => t.dtype.startsWith("float");

/** What the page keeps in its address, as in #step=9&edits=q.3.0*-2, so that a link leads to the same place. */
let address = new URLSearchParams(location.hash.slice(1));

/** Values by key, and none for ""; a `place` of its own is one that the browser's Back leads to. */
function keepInAddress(values, isPlace = false) {
  for (const [key, value] of Object.entries(values)) if (value === "") address.delete(key); else address.set(key, value);
  const hash = `#${address}`;
  if (hash !== (location.hash || "#")) history[isPlace ? "pushState" : "replaceState"](null, "", hash);
}

/** What the address keeps of edits, switches and the mistake. */
function inAddress({edits, switches}) {
  const changed = [...edits].flatMap(([name, data]) => {
    const {shape, value} = computation.tensors.get(name);
    return [...data].flatMap((x, i) => x === value[i] ? [] : `${[name, ...unravel(shape, i)].join(".")}*${x}`);
  });
  const turned = extras.switches.map(({name}, i) => [`switch.${name}`, switches[i] === asLoaded().switches[i] ? "" : String(switches[i])]);
  return {edits: changed.join(" "), ...Object.fromEntries(turned), mistake: (extras.mistakes[state.mistake] || {name: ""}).name};
}

/** The edits, switches and the mistake that the address keeps, as far as they make sense. */
function fromAddress() {
  const found = {...asLoaded(), mistake: extras.mistakes.findIndex(({name}) => name === address.get("mistake"))};
  for (const [, name, index, x] of (address.get("edits") || "").matchAll(/(\S+?)((?:\.\d+)*)\*(\S+)/g)) {
    const t = computation.tensors.get(name), at = index.split(".").slice(1).map(Number);
    if (!t || !isEditable(t) || at.length !== t.shape.length || at.some((i, d) => i >= t.shape[d]) || !Number.isFinite(Number(x))) continue;
    const data = found.edits.get(name) || t.value.slice();
    found.edits.set(name, data);
    data[ravel(t.shape, at)] = Number(x);
  }
  const turned = extras.switches.map(({name}) => Number(address.get(`switch.${name}`) ?? NaN));
  found.switches = found.switches.map((x, i) => (extras.switches[i].choices ? turned[i] in extras.switches[i].choices : Number.isFinite(turned[i])) ? turned[i] : x);
  return found;
}

const asLoaded = () => ({
  edits: new Map(), // name: all numbers of an input of which some are edited
  switches: extras.switches.map(s => s.number ? Number(s.number.value) : 0), // a number, or the index of a choice
});
const state = {
  ...asLoaded(),
  past: [], // edits and switches, for undo
  mistake: -1, // none
  step: Number(address.get("step")) || 0, // 0: all; then the steps forward; then those backward
  opened: new Set(), // names of inputs to be edited in any step, also where it does not read them
  pointed: null, // {name, index, kind}
  h: 1e-5,
  station: 0, // none, or the station of the guided path that is open
  answers: new Map(), // {number of a station: {isRight, text}}
  tried: null, // a first answer, which was wrong
  chosen: new Set(), // places of the cells that are an answer so far
  isForced: false, // to recompute what the trace has, for tests
};
let pass = computation.asTraced; // the numbers shown
let right = pass; // the same without the mistake

function activeSets() {
  return extras.switches.flatMap((s, i) => {
    if (!s.number) return s.choices[state.switches[i]].sets;
    return state.switches[i] === Number(s.number.value) ? [] : [{...s.number, value: state.switches[i]}];
  });
}

const isEdited = () => state.edits.size > 0 || activeSets().length > 0;
const isAsTraced = () => !isEdited() && !state.isForced;

function compute() {
  const mistake = extras.mistakes[state.mistake], sets = activeSets();
  right = isAsTraced() ? computation.asTraced : computation.run(state.edits, sets);
  pass = right;
  if (!mistake) return;
  right = computation.run(state.edits, sets); // computed too, so that only the mistake makes a difference
  pass = computation.run(state.edits, sets, mistake);
  if (!isAsTraced()) return;
  pass.values = right.values = computation.asTraced.values;
  for (const [name, t] of pass.gradients) { // what is not wrong stays the trace's
    const traced = computation.asTraced.gradients.get(name).data, wrong = wrongPlaces(name);
    t.data = t.data.map((x, i) => wrong.has(i) ? x : traced[i]);
  }
}

/** The places where a mistake changes a gradient by more than rounding can. */
function wrongPlaces(name) {
  if (pass === right) return new Set();
  const found = pass.gradients.get(name).data, expected = right.gradients.get(name).data;
  const size = Math.max(0, ...[...found, ...expected].filter(Number.isFinite).map(Math.abs));
  const isRight = (x, y) => Object.is(x, y) || x === y || Math.abs(x - y) <= 1e-9 * size;
  return new Set([...found.keys()].filter(i => !isRight(found[i], expected[i])));
}
