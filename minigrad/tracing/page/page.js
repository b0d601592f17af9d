/* Mistakes, shares, and all of the page. */

function drawMistake() {
  const section = byId("mistake"), mistake = extras.mistakes[state.mistake];
  section.hidden = !mistake;
  const written = steps.filter(isMistakenIn).flatMap(step => touchedBy(step).writes).map(gridOf).filter(Boolean);
  for (const grid of grids.values()) grid.figure.classList.toggle("replaced", written.includes(grid) && wrongPlaces(grid.t.name).size > 0);
  if (!mistake) return;
  const counts = names.filter(name => !joined.has(name)).flatMap(name => {
    const grid = gridOf({name, kind: "gradient"}), wrong = grid ? wrongPlaces(name).size : 0;
    return wrong ? [`${wrong} of ${grid.cells.length} in ${symbol({name, kind: "gradient"})}`] : [];
  });
  section.replaceChildren(
    element("h2", {}, element("span", {}, "Mistake"), ` ${mistake.title || mistake.name}`),
    ...[mistake.sentence || []].flat().map(line => derivation(line, symbolOf)),
    element("p", {class: "counts"}, counts.length ? `Wrong: ${counts.join(", ")}.` : "No number is wrong."),
    ...(extras.trains ? [button("Train with it", () => { visit(stations.length); train(""); }, {class: "go"})] : []),
    ...(mistake.check ? [
      element("h3", {}, `What the gradient check says${isEdited() ? " of the numbers the page began with" : ""}`),
      element("pre", {tabindex: 0}, mistake.check),
    ] : []),
  );
}

/** The tables of shares: those of the extras, or of each tensor that several steps use. */
function listShares() {
  return extras.shares || [...computation.tensors.values()].filter(t => t.uses.length > 1).map(t => ({
    tensor: t.name,
    through: [...new Set(t.uses.map(use => use.step.output.name))].map(name => ({label: symbolOf(name), tensor: name})),
  }));
}

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
      const percent = Number.isFinite(part) ? `${(100 * part).toFixed(1)}%` : "none";
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
        ...(isMissing ? [row("other paths", rest)] : []), row("total", total))));
  })), ...(extras.about_shares || []).map(line => derivation(line, symbolOf)));
}

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
  byId("reset").disabled = !isEdited();
  document.body.classList.toggle("edited", !isAsTraced());
  drawSizes();
  drawMistake();
  drawShares();
  drawStep(); // a switch can change what a step reads
  for (const draw of [drawVeils, drawChosen, drawVerdict]) draw(); // of the path
  drawPointed();
  if (!editing) keepNumbers();
}

function listenToCells() {
  const main = byId("numbers");
  main.addEventListener("pointerover", event => { const cell = cellOf(event); if (cell && !editing) point(cell); });
  main.addEventListener("pointerleave", () => { // back to the cell with the focus, whose slider is in the panel
    const chosen = document.activeElement;
    if (chosen.grid) point(chosen);
  });
  main.addEventListener("click", event => { const cell = cellOf(event); if (cell) cell.focus(); toggleChosen(cell); });
  main.addEventListener("focusin", event => {
    const cell = cellOf(event);
    if (!cell) return;
    if (cell.tagName === "INPUT" && !cell.hasAttribute("aria-invalid")) {
      settleText(cell);
      cell.select();
    }
    makeTabStop(cell);
    point(cell, true);
  });
  listenToDrags(main);
  main.addEventListener("focusout", ({target}) => { if (target.grid && target.tagName === "INPUT") settle(target, true); });
  main.addEventListener("input", event => { if (event.target.grid) typed(event.target); });
  main.addEventListener("keydown", event => {
    const cell = cellOf(event);
    if (!cell) return;
    if (cell.tagName === "INPUT" && event.key === "Enter") confirmEdit(cell);
    if (cell.tagName === "INPUT" && event.key === "Escape") cancelEdit(cell);
    if (cell.grid === gridAsked() && [" ", "Enter"].includes(event.key)) { event.preventDefault(); toggleChosen(cell); }
    moveInGrid(event, cell);
  });
}

function listenToControls() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isInField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName), isFree = !isInField && !event.target.grid;
    const by = {"[": -1, "]": 1}[event.key] ?? (isFree ? {ArrowLeft: -1, ArrowRight: 1}[event.key] : undefined);
    if (by === undefined || event.target.closest && event.target.closest("pre, .scroll:focus")) return;
    event.preventDefault();
    move(state.step + by);
  });
  byId("step").addEventListener("input", event => goTo(Number(event.target.value), false));
  const clicks = {previous: () => move(state.step - 1), next: () => move(state.step + 1), all: () => move(0), play, undo, reset};
  for (const [id, action] of Object.entries(clicks)) byId(id).addEventListener("click", action);
  for (const type of ["pointerover", "pointerleave"]) byId("panel").addEventListener(type, lightNamed);
}

/** How much of the controls is above the steps; it scrolls away on a narrow screen. */
const barAbove = () => Math.max(byId("previous").offsetTop - 12, 0);
const barOnScreen = () => byId("controls").offsetHeight - barAbove();

/** Tells the style how high the controls are, since the panel sticks below them. */
function measureBar() {
  document.documentElement.style.setProperty("--bar", `${barOnScreen()}px`);
  document.documentElement.style.setProperty("--above", `${barAbove()}px`);
  fitToScreen();
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
  byId("foot").replaceChildren(...paragraphs([
    "Keys: Tab goes from matrix to matrix, the arrow keys move within one; [ and ] go to the previous and the next step. "
    + "Enter confirms an edit, Escape cancels it.",
    "Until you edit something, the numbers are the trace's own; after that, this page computes them in float64. Masks, "
    + "indices and other constants stay as traced.",
  ]));
  drawPicture();
  drawSwitches();
  listenToCells();
  listenToControls();
  new ResizeObserver(measureBar).observe(byId("controls"));
  addEventListener("resize", fitToScreen);
  startTraining();
  startPath();
  showAddress();
  addEventListener("popstate", () => {
    address = new URLSearchParams(location.hash.slice(1));
    showAddress();
  });
}

/** All that the address keeps, at first, and when the browser goes back. */
function showAddress() {
  const step = address.has("step") ? Number(address.get("step")) || 0 : null;
  trial = null;
  Object.assign(state, fromAddress(), {past: []});
  if (byId("mistakes")) byId("mistakes").value = state.mistake;
  compute();
  if (stations.length) openStation(readAddress(), false);
  restore({});
  goTo(step ?? (station() ? state.step : 0), false);
  if (station()) focusQuestion();
}

drawAll();
