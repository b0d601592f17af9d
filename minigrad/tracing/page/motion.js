/* Motion: a step that opens fills the cells that it writes from the terms, which light up one after another; Play opens all steps. */

const PACE = 55, MOST = 64, PAUSE = 1200; // milliseconds of a term, of which so many are seen one by one, and between two steps
let timer = 0, isPlaying = false;
const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The terms of the numbers that a step writes, as they arrive: [{cell, sources, says, isLast}]. What is added up in the gradient
    of an input arrives one by one; `says` is the sum so far. */
function listArrivals(step) {
  const cells = touchedBy(step).writes.map(gridOf).filter(Boolean).flatMap(grid => grid.cells).filter(cell => !isVeiled(cell));
  return cells.flatMap(cell => {
    const {t, kind} = cell.grid, [{term} = {}] = sentBy(step, {name: t.name, kind, index: unravel(t.shape, cell.place)});
    const sum = term && !t.step && [term, ...term.parts].find(({is, parts}) => is === "sum" && parts.length > 1);
    return (sum ? sum.parts : [term]).map((part, i, all) => ({cell, sources: part ? sourcesOf(part).map(cellAt).filter(Boolean) : [],
      says: sum === term ? shown(sumOf(all.slice(0, i + 1)).value) : "", isLast: i === all.length - 1}));
  });
}

function rest(classes = ["awaited", "lit"]) {
  document.querySelectorAll(".awaited, .lit").forEach(box => { box.classList.remove(...classes); delete box.dataset.arrives; });
  clearTimeout(timer);
}

function fill(then = () => {}) {
  const all = state.step && !isStill() ? listArrivals(steps[state.step - 1]) : [], few = Math.ceil(all.length / MOST);
  rest();
  all.forEach(({cell}) => cell.box.classList.add("awaited"));
  const tick = k => {
    rest(["lit"]);
    for (const {cell, sources, says, isLast} of all.slice(k, k + few)) {
      [cell, ...sources].forEach(({box}) => box.classList.add("lit"));
      cell.box.dataset.arrives = says;
      if (isLast) { cell.box.classList.remove("awaited"); delete cell.box.dataset.arrives; }
    }
    timer = setTimeout(k < all.length ? tick : () => { rest(); then(); }, PACE, k + few);
  };
  tick(0);
}

/** Go to a step by hand, which ends Play. */
function move(step) {
  if (isPlaying) play();
  goTo(step);
  fill();
}

/** All steps once, forward and back; or no longer. */
function play() {
  isPlaying = !isPlaying;
  byId("play").textContent = isPlaying ? "Stop" : "Play";
  const next = () => {
    if (state.step === steps.length) { play(); return goTo(0); }
    goTo(state.step + 1, false);
    fill(() => { timer = setTimeout(next, PAUSE); });
  };
  if (isPlaying && state.step === steps.length) goTo(0, false);
  if (isPlaying) next(); else rest();
}
