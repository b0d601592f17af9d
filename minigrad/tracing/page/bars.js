/* Softmax's backward as a picture of one row. In the middle each key is as wide as its weight and reaches from the line r to its
   dP: the area is its dS, above the line or below. The areas above and below are equal, as dS sums to 0. */

const CHARTS = { // in pixels, on a wide screen and on a narrow one
  false: {width: 140, wide: 190, top: 30, height: 96, below: 40, gap: 14},
  true: {width: 96, wide: 124, top: 30, height: 60, below: 40, gap: 6},
};
const isNarrow = () => matchMedia("(max-width: 60rem)").matches;
const LABELLED = 14; // the least width of a bar with a label
const brief = x => String(Number(x.toPrecision(2)));

const bars = extras.bars; // {weights, mean, scores}: names of tensors

/** The row pointed at, else that of the question, else the last: the index of its query. */
function rowShown() {
  const {shape} = computation.tensors.get(bars.scores), names = Object.values(bars), rank = shape.length - 1;
  const asked = station() && Object.values(station().question).find(one => one && names.includes(one.tensor) && one.index);
  const {pointed} = state, index = pointed && names.includes(pointed.name) ? pointed.index : asked ? asked.index : shape.map(n => n - 1);
  return index.slice(0, rank);
}

/** What the picture shows: the keys that are not masked, each with its numbers; `isVeiled` of what a question asks for. */
function readRow(row) {
  const read = (name, kind, index) => {
    const cell = cellAt({name, kind, index});
    return {x: pass[`${kind}s`].get(name).data[cell.place], isVeiled: isVeiled(cell)};
  };
  const t = computation.tensors.get(bars.scores), {columns = []} = extras.labels[t.name] || {};
  const keys = each(last(t.shape), j => ({index: [...row, j], label: columns[j] ?? String(j)}))
    .filter(({index}) => !computation.isMasked(pass, t, index))
    .map(key => ({...key, p: read(bars.weights, "value", key.index), dP: read(bars.weights, "gradient", key.index),
      dS: read(bars.scores, "gradient", key.index)}));
  return {keys, mean: read(bars.mean, "gradient", [...row, 0])};
}

/** A chart with its title: bars that reach from `base` to `x`, [{start, width, base, x, label}], parts of its width. */
function chart(left, width, title, all, line) {
  const ends = [0, ...all.flatMap(({base, x}) => [base, x]), ...(line === undefined ? [] : [line])].filter(Number.isFinite);
  const [low, high] = [Math.min(...ends), Math.max(...ends)], {top, height, below} = CHARTS[isNarrow()];
  const y = x => top + 12 + (high - x) / (high - low || 1) * height, across = x => left + x * width;
  const text = (x, at, content, of = "") => svg("text", {x, y: at, "text-anchor": "middle", class: of}, content);
  const drawn = all.flatMap(({start, width: part, base, x, label, isOpen}) => {
    if (!Number.isFinite(x)) return [];
    const [from, to] = [base, x].map(y), middle = across(start + part / 2), isWide = part * width >= LABELLED;
    const sign = isOpen ? "open" : x < base ? "negative" : "positive";
    return [
      svg("rect", {x: across(start), y: Math.min(from, to), width: Math.max(part * width - 1, 1), height: Math.abs(from - to), "data-sign": sign}),
      ...(isWide ? [text(middle, to + (x < base ? 12 : -4), brief(x), "says"), text(middle, top + height + below, label)] : [])];
  });
  return [
    svg("text", {x: left, y: 12, class: "title"}, title), ...drawn,
    svg("line", {x1: left, x2: left + width, y1: y(0), y2: y(0), class: "axis"}),
    ...(line === undefined ? [] : [svg("line", {x1: left, x2: left + width, y1: y(line), y2: y(line), class: "mean"}),
      svg("text", {x: left + width + 2, y: y(line) + 4, class: "mean"}, symbolOf(bars.mean))]),
  ];
}

/** In the steps that make the row sum and dS. */
function drawBars() {
  const box = byId("bars"), current = steps[state.step - 1];
  box.hidden = !bars || !current || !current.isBackward || ![bars.weights, bars.mean].includes(current.name);
  if (box.hidden) return;
  const row = rowShown(), {keys, mean} = readRow(row), n = keys.length, {width, wide, top, height, below, gap} = CHARTS[isNarrow()];
  const [P, dP, dS, r] = [["weights", "value"], ["weights", "gradient"], ["scores", "gradient"], ["mean", "gradient"]].map(
    ([name, kind]) => symbol({name: bars[name], kind}));
  const even = (key, {x}, j) => ({...key, start: (j + 0.15) / n, width: 0.7 / n, base: 0, x});
  const starts = keys.map((_, j) => keys.slice(0, j).reduce((sum, key) => sum + key.p.x, 0));
  const isAsked = keys.some(key => key.dS.isVeiled), line = mean.isVeiled ? undefined : mean.x;
  const areas = keys.map((key, j) => ({...key, start: starts[j], width: key.p.x, base: line ?? 0, x: key.dP.x, isOpen: isAsked || mean.isVeiled}));
  const query = (extras.labels[bars.scores] || {rows: []}).rows[last(row)] ?? last(row);
  const picture = svg("svg", {viewBox: `0 0 ${2 * width + wide + 2 * gap + 18} ${top + height + below + 6}`, role: "img",
    "aria-label": [`Row ${query}`, ...(mean.isVeiled ? [] : [`${r} ${shown(mean.x)}`]), ...keys.map(key =>
      `key ${key.label}: ${P} ${shown(key.p.x)}, ${dP} ${shown(key.dP.x)}${key.dS.isVeiled || mean.isVeiled ? "" : `, ${dS} ${shown(key.dS.x)}`}`)].join("; ")});
  picture.append(
    ...chart(0, width, P, keys.map((key, j) => even(key, key.p, j))),
    ...chart(width + gap, wide, `${dP}, as wide as ${P}`, areas, line),
    ...(isAsked || mean.isVeiled ? [svg("text", {x: width + wide + 2 * gap + 18, y: 12, class: "title"}, `${dS} = ?`)]
      : chart(width + wide + 2 * gap + 18, width, `${dS}: the areas`, keys.map((key, j) => even(key, key.dS, j)))));
  box.replaceChildren(element("p", {}, "Row ", element("b", {}, String(query)), mean.isVeiled ? "" : `, ${r} = ${shown(mean.x)}`), picture);
}
