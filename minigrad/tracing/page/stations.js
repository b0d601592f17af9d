/* The guided path: stations with a question each. Its answer is computed from the numbers shown, so edits and switches
   cannot break it. Until it is answered, the cells asked for are veiled, at earlier stations too; it is shown after a second
   try. The page's address keeps what was answered. */

const stations = extras.stations || [];
const station = () => stations[state.station - 1];
const stationName = number => stations[number - 1].name ?? String(number);
const answerOf = number => state.answers.get(number); // {isRight, text}
const given = () => answerOf(state.station);

const toCell = ({tensor, index, kind}) => cellAt({name: tensor, index, kind});
const numbersOf = ({tensor, kind}, of = right) => (kind === "value" ? of.values : of.gradients).get(tensor);
const numberAt = ({index, ...cell}, of = right) => numbersOf(cell, of).data[ravel(numbersOf(cell).shape, index)];
const passWith = mistake => mistake ? computation.run(state.edits, activeSets(), mistake) : right;
const named = ({tensor, index, kind}) => {
  const below = index.every(i => i < 10) ? index.join("") : `{${index.join(",")}}`;
  return formula(`${symbol({name: tensor, kind})}_${below}`, name => name, "inline");
};
/** A cell by its symbol, and the label of its column. */
const withLabel = one => element("span", {}, ((extras.labels[one.tensor] || {}).columns || [])[last(one.index)] ?? "", " ", named(one));
const rowOf = ({index, ...cell}) => each(last(numbersOf(cell).shape), j => ({...cell, index: [...index, j]}));

/** The terms of a number asked for. */
const termOf = ({tensor, index, kind}) => unfold(computation.explain(right, tensor, index, kind).parts[0].term, right);

const largestBeside = cell => Math.max(...numbersOf(cell).data.map(Math.abs)); // in its matrix
const isSmall = (x, cell) => Math.abs(x) <= 1e-9 * largestBeside(cell); // but for rounding
const signOf = (q, of = right) => isSmall(numberAt(q.sign, of), q.sign) ? "zero" : numberAt(q.sign, of) > 0 ? "positive" : "negative";

/** What changes by a question's edit, perhaps with a mistake: [{place, before, after}]. */
function changesBy({changes, edit}, mistake = null) {
  const run = edits => computation.run(edits, activeSets(), mistake);
  const edits = trial ? trial.before.edits : state.edits;
  const [before, after] = [edits, withEdit(edits, edit)].map(run).map(one => numbersOf(changes, one).data);
  const largest = Math.max(...before.map(Math.abs));
  return [...before.keys()].map(place => ({place, before: before[place], after: after[place]}))
    .filter(one => Math.abs(one.after - one.before) > 1e-9 * largest);
}

function withEdit(edits, {tensor, index, by = 0, times = 1}) { // of a number, or of a row
  const t = computation.tensors.get(tensor), within = t.shape.slice(0, index.length);
  const place = ravel(within, index), count = product(t.shape.slice(index.length));
  const data = (edits.get(tensor) || t.value).map((x, i) => Math.floor(i / count) === place ? x * times + by : x);
  return new Map(edits).set(tensor, data);
}

/** The cells of a row that are smallest, or nearest to another. */
function smallestOf({smallest, to}, of = right) {
  const size = cell => to ? Math.abs(numberAt(cell, of) - numberAt(to, of)) : numberAt(cell, of);
  const cells = rowOf(smallest), target = Math.min(...cells.map(size));
  return cells.filter(one => isSmall(size(one) - target, one));
}

/** What is right with a known mistake only: the usual wrong answers, in words. */
function nameWrong(question, text) {
  const mistake = text && !question.choices && extras.mistakes.find(one => kindOf(question).isRight(question, text, one));
  return mistake ? [`This would be right with a mistake, *${mistake.title || mistake.name}*:`, ...[mistake.sentence || []].flat()] : [];
}

/** By the key that a question has: the cells it veils; `choices`, [[text, label, label as text], ...], unless cells are clicked;
    whether a text is right; and the answer, in words and in terms. */
const QUESTIONS = {
  choices: { // to foretell, by training, what comes of it
    veils: () => [], choices: q => q.choices.map(text => [text, text, text]), isRight: (q, text) => text === q.choices[q.right],
    answer: q => [`${q.choices[q.right]}.`], lines: () => [],
  },
  sign: {
    veils: q => rowOf({...q.sign, index: lead(q.sign.index)}),
    choices: () => ["positive", "negative", "zero"].map(sign => [sign, sign, sign]),
    isRight: (q, text, mistake) => text === signOf(q, passWith(mistake)),
    answer: q => ["It is ", signOf(q) === "zero" ? "zero" : `${signOf(q)}, ${shown(numberAt(q.sign))}`, "."],
    lines: q => writePart({term: termOf(q.sign)}),
  },
  smallest: {
    veils: q => q.to ? [q.to] : rowOf(q.smallest),
    choices: q => rowOf(q.smallest).map(one => [one.index.join(","), withLabel(one), toCell(one).label]),
    isRight: (q, text, mistake) => {
      const found = smallestOf(q, passWith(mistake));
      return found.some(one => one.index.join(",") === text) && !(mistake && found.length > 1);
    },
    answer: q => [
      "It is ", withLabel(smallestOf(q)[0]), ". ",
      ...[...rowOf(q.smallest), ...(q.to ? [q.to] : [])].flatMap((one, i) => [i ? ", " : "", named(one), ` = ${shown(numberAt(one))}`]), ".",
    ],
    lines: q => station().name === "why" ? [] : writePart({term: termOf(q.to || smallestOf(q)[0])}),
  },
  changes: {
    veils: () => [],
    isRight: (q, text, mistake) => text === changesBy(q, mistake).map(one => one.place).join(" "),
    answer: (q, text) => {
      const changed = changesBy(q).map(one => one.place), chosen = text.split(" ").filter(Boolean).map(Number);
      const count = changed.length, found = chosen.filter(place => changed.includes(place)).length;
      return [count ? `${count} ${count === 1 ? "number changes" : "numbers change"}` : "No number changes",
        `, and you chose ${chosen.length || "none"}${chosen.length && !given().isRight ? `, ${found} of them right` : ""}.`];
    },
    lines: q => changesBy(q).map(({place, before, after}) => line(
      named({...q.changes, index: unravel(computation.tensors.get(q.changes.tensor).shape, place)}),
      `: ${shown(before)} → ${shown(after)}`)),
  },
};
const kindOf = q => QUESTIONS[Object.keys(QUESTIONS).find(key => key in q)];

let veiled = []; // cells
const isVeiled = cell => veiled.includes(cell);

function drawVeils() {
  veiled.forEach(cell => { cell.box.classList.remove("veiled"); cell.textContent = shown(Number(cell.dataset.value)); });
  const open = station() ? stations.filter((_, i) => i + 1 >= state.station && !answerOf(i + 1)).map(({question}) => question) : [];
  veiled = [...new Set(open.flatMap(question => kindOf(question).veils(question).map(toCell)))];
  veiled.forEach(cell => { cell.box.classList.add("veiled"); cell.textContent = "?"; cell.removeAttribute("aria-label"); });
}

const gridAsked = () => station() && station().question.changes
  && gridOf({name: station().question.changes.tensor, kind: station().question.changes.kind});

function drawChosen() {
  const grid = gridAsked(), isGiven = grid && given();
  document.body.classList.toggle("choosing", Boolean(grid && !isGiven));
  const chosen = new Set(isGiven ? given().text.split(" ").filter(Boolean).map(Number) : state.chosen);
  const moved = new Set(isGiven ? changesBy(station().question).map(one => one.place) : []);
  for (const {box, place, grid: own} of [...grids.values()].flatMap(({cells}) => cells)) {
    const marks = {choosable: !isGiven, chosen: chosen.has(place), moved: moved.has(place)};
    for (const [mark, isOn] of Object.entries(marks)) box.classList.toggle(mark, own === grid && isOn);
    if (own === grid) box.setAttribute("aria-selected", chosen.has(place)); else box.removeAttribute("aria-selected");
  }
}

function toggleChosen(cell) {
  if (!cell || cell.grid !== gridAsked() || given()) return;
  if (!state.chosen.delete(cell.place)) state.chosen.add(cell.place);
  drawChosen();
  const text = `${state.chosen.size} ${state.chosen.size === 1 ? "cell" : "cells"} chosen`;
  byId("path").querySelector(".count").textContent = `${text}.`;
  byId("spoken").textContent = `${cell.label} ${state.chosen.has(cell.place) ? "chosen" : "left out"}, ${text}`;
}

let trial = null; // {before, depth}: the edit that an answer makes, or the switches that a station turns

function startTrial() {
  const {turns = {}, question: {edit}} = station(), isEdit = edit && given();
  if (!isEdit && !Object.keys(turns).length) return;
  trial = {before: snapshot(), depth: state.past.push(snapshot())};
  if (isEdit) state.edits = withEdit(state.edits, edit);
  extras.switches.forEach(({name}, i) => { state.switches[i] = turns[name] ?? state.switches[i]; });
  drawSwitchValues();
}

const isTrial = () => Boolean(trial) && state.past.length === trial.depth;

/** Undo it, unless the user went on from there. */
function endTrial() {
  const isOver = isTrial();
  trial = null;
  if (isOver) restore(state.past.pop());
}

function openStation(number, isPlace = true) {
  endTrial();
  Object.assign(state, {station: number, pointed: null, tried: null});
  state.chosen.clear();
  keepInAddress({station: number ? stationName(number) : extras.station ? "none" : ""}, isPlace);
  if (station()) {
    const {step, way} = station();
    startTrial();
    goTo(1 + steps.findIndex(one => one.name === step && one.isBackward === (way === "backward")), false);
  }
  update();
  drawStation();
}

/** Open a station by a button, which is gone then. */
function visit(number) {
  openStation(number);
  if (number) fill();
  focusQuestion();
}

function focusQuestion() {
  const form = byId("path").querySelector("form"), field = form && !isNarrow() && form.querySelector("input");
  byId("panel").scrollTop = 0;
  const target = field || form || byId("path").querySelector("h2") || byId("invitation").lastElementChild;
  target.focus({preventScroll: true});
}

function keepAnswer(answer, number = state.station) {
  if (answer) state.answers.set(number, answer); else state.answers.delete(number);
  keepInAddress({[stationName(number)]: answer ? `${verdictOf(number)} ${answer.text}` : ""});
}

function answer(text) {
  const {question} = station(), isRight = kindOf(question).isRight(question, text);
  if (!isRight && state.tried === null) {
    state.tried = text;
    drawStation();
    return byId("path").querySelector(".again").focus();
  }
  keepAnswer({isRight, text});
  endTrial();
  startTrial();
  state.pointed = null;
  update();
  drawStation();
  byId("path").querySelector(".verdict").focus();
}

const button = (text, click, attributes = {}) => element("button", {type: "button", click, ...attributes}, text);
const verdictOf = number => !answerOf(number) ? "none" : answerOf(number).isRight ? "right" : "wrong";
const IN_WORDS = {none: "not answered", right: "answered right", wrong: "answered, not right"};

/** All of the section, when a station opens or was answered. */
function drawStation() {
  const section = byId("path"), here = station();
  section.hidden = !here;
  document.body.classList.toggle("trying", Boolean(here && here.question.choices));
  drawInvitation();
  if (!here) return section.replaceChildren();
  const list = stations.map(({title}, i) => element("li", {}, button(stationName(i + 1), () => visit(i + 1), {
    "aria-label": `Station ${stationName(i + 1)}, ${title}, ${IN_WORDS[verdictOf(i + 1)]}`, title,
    "data-answer": verdictOf(i + 1), ...(state.station === i + 1 ? {"aria-current": "step"} : {}),
  })));
  const isLast = state.station === stations.length;
  section.replaceChildren(
    button("×", () => visit(0), {class: "leave", "aria-label": "Leave the path", title: "Leave the path"}),
    element("ol", {class: "stations", "aria-label": "Stations"}, ...list),
    element("h2", {tabindex: -1}, element("span", {}, here.name === "why" ? "Why" : `Station ${stationName(state.station)}`), ` ${here.title}`),
    ...here.text.map(text => derivation(text, symbolOf)),
    given() ? element("div", {class: "verdict", tabindex: -1}) : drawQuestion(here.question),
    element("p", {class: "onward"},
      ...(state.station > 1 ? [button("Back", () => visit(state.station - 1))] : []),
      ...(given() ? [button("Ask again", () => { keepAnswer(null); visit(state.station); })] : []),
      button(isLast ? "Finish" : given() ? "Next" : "Skip", () => { // at last to the whole page, where a mistake shows all that it spoils
        if (isLast) { visit(0); goTo(0); } else visit(state.station + 1);
      }, given() ? {class: "go"} : {})),
    ...(here.guide ? [element("p", {class: "guide"},
      `Derived in section ${here.guide.replace(". ", ", ")}, of the guide: minigrad study --guide.`)] : []),
  );
  drawVerdict();
}

function drawQuestion(question) {
  const kind = kindOf(question), text = withAttribute(derivation(question.text, symbolOf), "id", "question"), labelled = {"aria-labelledby": "question"};
  const read = () => kind.choices ? (form.querySelector(":checked") || {value: ""}).value : [...state.chosen].sort((a, b) => a - b).join(" ");
  const submit = event => {
    event.preventDefault();
    const said = read(), isGiven = said || question.changes;
    say(isGiven ? "" : "Choose an answer first.");
    if (isGiven) answer(said);
  };
  const form = element("form", {class: "question", tabindex: -1, ...labelled, submit}, text);
  if (kind.choices) {
    const labels = kind.choices(question).map(([value, label, spoken]) => element("label", {},
      element("input", {type: "radio", name: "answer", value, "aria-label": spoken}), label));
    form.append(element("div", {role: "radiogroup", ...labelled}, ...labels));
  } else {
    form.append(element("p", {class: "hint"}, "Click its cells, or press Enter on them; none is an answer too. ",
      element("b", {class: "count"}, `${state.chosen.size} cells chosen.`)));
  }
  const again = state.tried === null ? []
    : [element("div", {class: "again", tabindex: -1}, ...["*Not yet.* Try once more.", ...nameWrong(question, state.tried)].map(line => derivation(line, symbolOf)))];
  form.append(...again, element("button", {class: "go"}, "Check"));
  return form;
}

/** The answer with its terms, by the numbers as they are now. The verdict is on those that it was given for. */
function drawVerdict() {
  const box = byId("path").querySelector(".verdict");
  if (!box || !given()) return;
  const {question} = station(), kind = kindOf(question), {isRight, text} = given();
  const since = kind.isRight(question, text) === isRight ? ". " : ", for other numbers than these. ";
  box.dataset.answer = isRight ? "right" : "wrong";
  box.replaceChildren(
    element("p", {}, element("b", {}, `${isRight ? "Right" : "Not quite"}${since}`), ...kind.answer(question, text)),
    ...kind.lines(question, text), derivation(question.reason, symbolOf),
  );
}

function drawInvitation() {
  const first = stations.findIndex((_, i) => !state.answers.has(i + 1)) + 1, count = state.answers.size;
  const isRight = [...state.answers.values()].filter(one => one.isRight).length;
  const all = stations.length, startOver = () => { stations.forEach((_, i) => keepAnswer(null, i + 1)); visit(1); };
  const [text, label, action] = !count
    ? [`New to this? ${all > 1 ? `A guided path asks ${all} questions, and answers them with these numbers` : "One question is about what is new here"}.`, "Start the path", () => visit(1)]
    : first ? [`${count} of ${all} questions of the guided path are answered.`, "Go on", () => visit(first)]
      : [`All ${all} questions of the guided path are answered, ${isRight} right. Now choose a mistake and see which numbers `
        + "it spoils, or write this backward yourself: minigrad exercises.", "Start over", startOver];
  byId("invitation").replaceChildren(text, " ", button(label, action, {class: "go"}));
  byId("invitation").hidden = Boolean(station());
}

/** What the address keeps, as far as it makes sense. */
function readAddress() {
  stations.forEach(({question}, i) => {
    const [, verdict, text] = /^(right|wrong) (.*)$/.exec(address.get(stationName(i + 1))) || [];
    const kind = kindOf(question);
    const makesSense = kind.choices ? kind.choices(question).some(([value]) => value === text)
      : /^(\d+( \d+)*)?$/.test(text);
    if (verdict && makesSense) keepAnswer({isRight: kind.isRight(question, text), text}, i + 1); // by the numbers as they are
    else state.answers.delete(i + 1);
  });
  const name = String(address.get("station") ?? (!address.toString() && extras.station || ""));
  return 1 + stations.findIndex((_, i) => stationName(i + 1) === name);
}

function startPath() {
  if (!stations.length) return;
  byId("introduction").append(element("p", {id: "invitation"}));
}
