/* The map: the whole computation in small, each gradient below its value. A step lights what it reads and writes. */

const MAP = {letter: 6.6, padding: 12, half: 15, gap: 7, between: 26, margin: 8}; // in pixels
const halves = new Map(); // "value q": its box, an SVG element
const bySymbol = new Map(); // "Wq": its Grid
const arrows = []; // {from, to, path}: an arrow between two of these

function drawMap(groups, flows) {
  const {letter, padding, half, gap, between, margin} = MAP, places = new Map();
  const heightOf = group => group.reduce((sum, name) => sum + half * kindsOf(name).length + gap, -gap);
  const height = Math.max(...groups.map(heightOf)) + 2 * margin;
  let x = margin;
  groups.forEach((group, column) => {
    const width = Math.max(...group.map(name => symbolOf(name).length + 1)) * letter + padding;
    let y = (height - heightOf(group)) / 2;
    for (const name of group) {
      places.set(name, {x, y, width, column});
      y += half * kindsOf(name).length + gap;
    }
    x += width + between;
  });
  const drawing = svg("svg", {width: x - between + margin, height, role: "img", "aria-label": "Map of the computation"});
  for (const {kind, from, to} of flows) {
    if (!places.has(from) || !places.has(to)) continue;
    const [a, b] = [from, to].map(name => ({...places.get(name), y: topOf(name, kind, places.get(name).y) + half / 2}));
    const path = arrow(kind, a, b, height);
    arrows.push({from: `${kind} ${from}`, to: `${kind} ${to}`, path});
    drawing.append(path);
  }
  for (const [name, place] of places) for (const kind of kindsOf(name)) drawing.append(box(name, kind, place));
  byId("map").append(drawing);
  for (const grid of grids.values()) bySymbol.set(symbol({name: grid.t.name, kind: grid.kind}).replaceAll("_", ""), grid);
}

const topOf = (name, kind, y) => kind === "gradient" && kindsOf(name).length > 1 ? y + MAP.half : y;

/** An arrow to the right for values, to the left for gradients; round the columns between, above or below them. */
function arrow(kind, from, to, height) {
  const isValue = kind === "value", way = Math.sign(to.column - from.column) || (isValue ? 1 : -1);
  const isFar = Math.abs(to.column - from.column) > 1, edge = isValue ? 3 : height - 3, bend = MAP.between * (isFar ? 1.5 : 0.5);
  const back = from.column === to.column ? way : -way; // within a column, from one side to the same side
  const [a, d] = [[from, way], [to, back]].map(([{x, y, width}, side]) => [side > 0 ? x + width : x, y]);
  const [b, c] = [[a, way], [d, back]].map(([[x, y], side]) => [x + side * bend, isFar ? edge : y]);
  const angle = Math.atan2(d[1] - c[1], d[0] - c[0]);
  const [left, right] = [0.5, -0.5].map(by => [d[0] - 6 * Math.cos(angle + by), d[1] - 6 * Math.sin(angle + by)]);
  return svg("path", {d: `M${a}C${b} ${c} ${d}M${left}L${d}L${right}`, class: "flow"});
}

/** Half of a tensor's box; a click leads to the step that writes it, or opens an input. */
function box(name, kind, {x, y, width}) {
  const top = topOf(name, kind, y), made = svg("g", {class: "half"});
  made.append(svg("rect", {x, y: top, width, height: MAP.half, rx: 3}), svg("text", {
    x: x + width / 2, y: top + MAP.half - 4, "text-anchor": "middle"}, symbol({name, kind})));
  made.addEventListener("click", () => {
    const step = steps.findIndex(step => touchedBy(step).writes.some(one => one.name === name && one.kind === kind));
    if (step >= 0) move(step + 1);
    else if (kind === "value" && canBeOpened(gridOf({name, kind}))) toggleOpened(name);
  });
  halves.set(`${kind} ${name}`, made);
  return made;
}

/** Lights what a step reads and writes, and the arrows between them; marks what edits have changed. */
function lightMap(reads, writes) {
  const keys = list => new Set(list.map(({name, kind}) => `${kind} ${name}`)), read = keys(reads), written = keys(writes);
  for (const [key, made] of halves) {
    made.classList.toggle("read", read.has(key));
    made.classList.toggle("written", written.has(key));
    made.classList.toggle("changed", grids.get(key).cells.some(({box}) => box.classList.contains("changed")));
  }
  for (const {from, to, path} of arrows) path.classList.toggle("lit", read.has(from) && written.has(to));
  const first = [...halves].find(([key]) => written.has(key));
  if (!first) return;
  const map = byId("map"), place = first[1].getBBox();
  map.scrollLeft = place.x + place.width / 2 - map.clientWidth / 2;
}

/** Lights the matrix, and its half of a box, that a symbol in the panel's text stands for, while it is pointed at. */
function lightNamed({target}) {
  document.querySelectorAll(".named").forEach(node => node.classList.remove("named"));
  const around = target.closest(".formula, p") && [target, target.closest("msub, msubsup")];
  const textOf = node => node.localName === "msubsup" ? [...node.children].slice(0, 2).map(textOf).join("") : node.textContent;
  const found = around && around.filter(Boolean).map(node => bySymbol.get(textOf(node).replaceAll("_", ""))).find(Boolean);
  const nodes = found ? [found.figure, halves.get(`${found.kind} ${found.t.name}`), target] : [];
  nodes.filter(Boolean).forEach(node => node.classList.add("named"));
}
