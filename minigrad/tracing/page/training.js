/* Break it, train it: a small model trains in a Worker with the backward that was chosen, or typed, beside the right one. */

const CHART = {height: 150, left: 28, top: 8, below: 20}, LEARNT = 0.95, AT_LAST = 10; // steps
let worker = null;

/** What is wrong with a line for dS, by finite differences of the scores, and which mistake it is: {isRight, lines}. */
function judge(line) {
  const [weights, scores] = [extras.bars.weights, extras.bars.scores].map(name => computation.tensors.get(name));
  const nodes = new Nodes(data.expressions), given = computation.given(state.edits, activeSets(), null);
  const ids = nodesOf(line, nodes, last(scores.shape), {P: weights.ids.value, dP: weights.ids.gradient, S: scores.ids.value});
  const numbers = nodes.evaluate(given, nodes.ordered(ids, given)), index = k => unravel(scores.shape, k);
  const own = ids.map((id, k) => computation.isMasked(pass, scores, index(k)) ? 0 : numbers[id]);
  const expected = ids.map((_, k) => differenceAt(scores.name, k, 1e-5)), size = Math.max(...expected.map(Math.abs));
  const differ = (a, b, within) => [...a.keys()].filter(k => !(Math.abs(a[k] - b[k]) <= within * size));
  const wrong = differ(own, expected, 1e-6), d = symbol({name: scores.name, kind: "gradient"});
  if (!wrong.length) return {isRight: true, lines: [`*Right.* All ${own.length} numbers of \`${d}\` are those of finite differences.`]};
  const worst = wrong.reduce((a, b) => Math.abs(own[b] - expected[b]) > Math.abs(own[a] - expected[a]) ? b : a);
  const mistake = extras.mistakes.find(one => !differ(own, passWith(one).gradients.get(scores.name).data, 1e-9).length);
  return {isRight: false, lines: [
    `*Wrong* in ${wrong.length} of ${own.length} numbers: \`${d}_{${index(worst)}}\` is ${shown(own[worst])}, and by finite differences ${shown(expected[worst])}.`,
    ...(mistake ? [`This is the mistake *${mistake.title}*.`, mistake.sentence] : [])]};
}

/** The runs so far: [{name, steps: [{loss, share}]}], the first with the right backward. */
function drawRuns(runs) {
  const {height, left, top, below} = CHART, width = isNarrow() ? 340 : 560, most = Math.ceil(runs[0].steps[0].loss), {steps: count} = extras.trains.model;
  const x = i => left + i / count * (width - left - 8), y = loss => top + (1 - Math.min(Number.isFinite(loss) ? loss : most, most) / most) * height;
  const text = (at, down, content, anchor) => svg("text", {x: at, y: down, "text-anchor": anchor}, content);
  const row = ({name, steps}, i) => element("tr", {}, element("th", {scope: "row"}, element("span", {class: i ? "other" : "right"}), name),
    element("td", {}, steps.at(-1).loss.toFixed(3)), element("td", {}, `${Math.round(100 * steps.at(-1).share)}%`));
  const picture = svg("svg", {viewBox: `0 0 ${width} ${top + height + below}`, role: "img", "aria-label": runs.map(({name, steps}) =>
    `The loss with ${name} goes from ${steps[0].loss.toFixed(2)} to ${steps.at(-1).loss.toFixed(2)} in ${steps.length} steps.`).join(" ")});
  picture.append(
    svg("line", {x1: left, x2: x(count), y1: y(0), y2: y(0), class: "axis"}), ...[0, most].map(loss => text(left - 6, y(loss) + 4, String(loss), "end")),
    text(left, y(0) + 15, "loss, by step", "start"), text(x(count), y(0) + 15, String(count), "end"),
    ...runs.map(({steps}, i) => svg("polyline", {points: steps.map(({loss}, k) => `${x(k).toFixed(1)},${y(loss).toFixed(1)}`).join(" "), class: i ? "other" : "right"})));
  byId("runs").replaceChildren(picture, element("table", {class: "shares"},
    element("thead", {}, element("tr", {}, ...["backward", "loss", "letters right"].map(title => element("th", {scope: "col"}, title)))),
    element("tbody", {}, ...runs.map(row))));
}

/** What the runs show, in words. */
function conclude([right, other]) {
  const end = ({steps}) => steps.slice(-AT_LAST).reduce((sum, {share}) => sum + share, 0) / AT_LAST;
  if (!other) return `It learned to write words from their end: ${Math.round(100 * end(right))}% of the letters. Now make a mistake, and train again.`;
  if (other.steps.every(({loss}, i) => Math.abs(loss - right.steps[i].loss) < 1e-6)) return "Both losses are the same, step by step.";
  return end(other) > LEARNT
    ? `With *${other.name}* nothing happens: it learns too, though its gradients are wrong. The loss does not tell. That is why a gradient check is needed.`
    : `With *${other.name}* it stalls: ${Math.round(100 * end(other))}% of the letters are right in the end, and ${Math.round(100 * end(right))}% with the right backward.`;
}

/** Train with a line, or else with the mistake chosen, beside the right backward. */
function train(line) {
  const mistake = extras.mistakes[state.mistake], backwards = [{name: "the right backward"}], status = byId("training").querySelector("[role=status]");
  const tell = lines => status.replaceChildren(...lines.map(text => derivation(text, symbolOf)));
  let said = [];
  try {
    if (line) said = judge(line).lines;
  } catch (error) { return status.replaceChildren(problem(error.message)); }
  if (line) backwards.push({name: "your line", line}); else if (mistake) backwards.push({name: mistake.title, choice: mistake.name});
  worker?.terminate();
  const runs = backwards.map(({name}) => ({name, steps: []})), {steps} = extras.trains.model;
  worker = new Worker(URL.createObjectURL(new Blob([byId("worker").textContent])));
  worker.addEventListener("message", ({data}) => {
    data.forEach((one, i) => runs[i].steps.push(one));
    const isOver = runs[0].steps.length === steps;
    if (isOver || !isStill()) drawRuns(runs);
    if (isOver) tell([...said, conclude(runs)]);
  });
  tell([...said, "It trains ..."]);
  worker.postMessage({model: extras.trains.model, backwards});
}

/** Beside the last station, and below the whole picture. */
function startTraining() {
  const section = byId("training"), field = element("input", {type: "text", id: "line", placeholder: "P * (dP - r)", spellcheck: "false", "aria-describedby": "names"});
  section.hidden = !extras.trains;
  if (!extras.trains) return;
  const submit = event => { event.preventDefault(); train(field.value.trim()); };
  section.append(...paragraphs(extras.trains.text), element("form", {submit},
    element("label", {for: "line"}, formula("dS = ", symbolOf, "inline")), field, element("button", {class: "go"}, "Train")), element("p", {class: "hint", id: "names"}, "A line of your own is of P, dP, r and S, "
    + "numbers, + − * / and sum(...) of each row. Without one, it trains with the mistake that is chosen above."),
  element("div", {role: "status"}), element("div", {id: "runs"}));
}
