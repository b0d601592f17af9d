/* The finite difference of a number pointed at, for each h. */

const EXPONENTS = Array.from({length: 45}, (_, i) => -12 + i / 4);

/** (L(x + h) - L(x - h)) / 2h, of one number of an input. */
function differenceAt(name, place, h) {
  const given = computation.given(state.edits, activeSets()), id = computation.tensors.get(name).ids.value[place];
  const x = pass.numbers[id], at = moved => computation.objective(
    computation.nodes.evaluate(new Map(given).set(id, moved), computation.forward));
  return (at(x + h) - at(x - h)) / (2 * h);
}

let plotTimer = 0;

function drawDifference() {
  const section = byId("difference"), {pointed} = state;
  const t = pointed && computation.tensors.get(pointed.name);
  const place = t && ravel(t.shape, pointed.index);
  const canDiffer = t && !t.step && isFloat(t) && t.gradient && computation.seeds.length && !obstacles.get(t.name)
    && Number.isFinite(pass.values.get(t.name).data[place]) && !isVeiled(cellAt({...pointed, kind: "gradient"}));
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
  section.querySelector("h2").textContent = `d${loss} / d${x}, by finite differences`;
  drawH(section);
  plotTimer = setTimeout(() => drawPlot(section, t.name, place, gradient), 30); // the numbers come first
}

function drawH(section) {
  section.querySelector(".h").replaceChildren("h = ", ...inTens(state.h));
  section.querySelector("input").setAttribute("aria-valuetext", `h = ${state.h.toExponential(1)}`);
}

function buildDifference(section) {
  const range = {min: -12, max: -1, step: 0.25, value: Math.log10(state.h)};
  const slider = element("input", {type: "range", ...range, "aria-label": "h", input: () => { state.h = 10 ** Number(slider.value); drawDifference(); }});
  const row = (name, of) => element("tr", {}, element("th", {scope: "row"}, name), element("td", {class: of}));
  section.append(
    element("h2"),
    element("div", {class: "formula"}, formula("(L(x + h) - L(x - h)) / {2 h}")),
    element("table", {class: "compare"},
      element("caption", {class: "unseen"}, "Difference and gradient"),
      element("tbody", {}, row("differences", "of-differences"), row("backward", "of-backward"), row("error", "of-error"))),
    svg("svg", {role: "img", viewBox: "0 0 320 142"}), element("label", {class: "h-slider"}, slider, element("span", {class: "h"})),
  );
}

function svg(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(text);
  return made;
}

/** Plots the error for each h: rounding dominates on the left, truncation on the right. */
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
  plot.setAttribute("aria-label", `The error for h from 1e-12 to 1e-1: smallest, ${least}, near h = 1e${Math.round(best)}; `
    + "larger on the left from rounding, and on the right from truncation.");
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
