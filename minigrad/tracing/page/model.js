/* Training, which runs in a Worker: the trees of a model for a batch of examples, and Adam. A line as P * (dP - r) as nodes. */

const OPERATIONS = {"+": ["add", 1], "-": ["subtract", 1], "*": ["multiply", 2], "/": ["divide", 2]};

/** The nodes of a line about softmax's backward, one for each of P. `known` are the nodes of P, dP and S, row by row, and r is the
    row sum of P dP. An Error says what is wrong with the line. */
function nodesOf(line, nodes, columns, known) {
  const tokens = line.replaceAll("−", "-").replace(/\br\b/g, "sum(P * dP)").match(/\d+\.?\d*|\.\d+|\w+|\S/g) || [];
  const refuse = expected => { throw new Error(`Expected ${expected}, not ${tokens.length ? `“${tokens[0]}”` : "the end"}.`); };
  const take = text => tokens[0] === text ? tokens.shift() : refuse(`“${text}”`);
  const group = () => { take("("); const inside = sum(0); take(")"); return inside; };
  const made = (name, ...parts) => known.P.map((_, k) => nodes.add(name, parts.map(part => part[k])));
  const ofRows = ids => ids.map((_, k) => k % columns ? 0 : nodes.add("adds", ids.slice(k, k + columns))).map((_, k, sums) => sums[k - k % columns]);
  const single = () => {
    const [token = ""] = tokens;
    if (token === "(") return group();
    if (!Object.hasOwn(known, token) && !/^(sum|-|\.?\d+\.?\d*)$/.test(token)) refuse("P, dP, S, r, sum(...) or a number");
    tokens.shift();
    return known[token] || (token === "sum" ? ofRows(group()) : token === "-" ? made("negative", single())
      : known.P.map(() => nodes.add("number", [], Number(token))));
  };
  const sum = above => {
    let left = single();
    while (OPERATIONS[tokens[0]]?.[1] > above) {
      const [name, strength] = OPERATIONS[tokens.shift()];
      left = made(name, left, sum(strength));
    }
    return left;
  };
  const found = sum(0);
  return tokens.length ? refuse("an operation") : found;
}

/** Ids as the page has them: the first, and how far apart the others are. */
const asIds = apart => { let id = 0; return apart.map(step => (id += step)); };

const [FACTOR, PRIME] = [16807, 2 ** 31 - 1]; // of the random numbers of Park and Miller

/** Words without end: numbers of letters, from 1. */
function* words(length, letters) {
  for (let state = 1;;) yield each(length, () => 1 + (state = state * FACTOR % PRIME) % letters);
}

class Training {
  /** A model, with the backward of a `choice`, or with a line for what softmax sends to the scores. */
  constructor(model, {choice, line}) {
    const mapped = (all, rule) => Object.fromEntries(Object.entries(all).map(([name, x]) => [name, rule(x)]));
    const nodes = new Nodes(model), values = mapped(model.values, asIds), gradients = mapped(model.gradients, asIds);
    Object.assign(this, model, {nodes, values, gradients, drawn: words(model.word, model.letters.length - 1), steps: 0});
    this.parameters = mapped(model.start, data => data.map(x => ({x, m: 0, v: 0})));
    const known = {P: values.weights, dP: gradients.weights, S: values.scores};
    if (line) nodesOf(line, nodes, 2 * model.word, known).forEach((id, k) => { nodes.parts[gradients.masked_scores[k]] = [id]; });
    this.choices = new Map(Object.entries(model.choices).map(([name, [id]]) => [id, Number(name === choice)]));
    this.order = nodes.ordered([values.loss, values.logits, ...Object.keys(model.start).map(name => gradients[name])].flat(), this.choices);
  }

  /** A step of Adam: {loss, share}, the loss before it, and the share of the answers' letters that were right. */
  step() {
    const {word, batch, values, gradients, rate} = this, classes = this.letters.length, given = new Map([...this.choices, [gradients.loss[0], 1]]);
    const examples = each(batch, () => this.drawn.next().value), follows = (example, t) => t < word ? -1 : example[2 * word - 1 - t];
    const put = (ids, letter) => ids.forEach((id, k) => given.set(id, examples.map(one => Number(letter(one, Math.floor(k / classes)) === k % classes))));
    put(values.there, (example, t) => t < word ? example[t] : t > word ? example[2 * word - t] : 0);
    put(values.follows, follows);
    for (const [name, all] of Object.entries(this.parameters)) all.forEach(({x}, k) => given.set(values[name][k], x));
    const numbers = this.nodes.evaluate(given, this.order, batch), lanes = id => numbers.subarray(id * batch, (id + 1) * batch);
    const mean = id => lanes(id).reduce((sum, x) => sum + x, 0) / batch;
    this.steps++;
    for (const [name, all] of Object.entries(this.parameters)) {
      all.forEach((one, k) => {
        const gradient = mean(gradients[name][k]), corrected = (x, decay) => x / (1 - decay ** this.steps);
        one.m += 0.1 * (gradient - one.m);
        one.v += 0.001 * (gradient ** 2 - one.v);
        one.x -= rate * corrected(one.m, 0.9) / (Math.sqrt(corrected(one.v, 0.999)) + 1e-8);
      });
    }
    const guessed = (t, lane) => each(classes, c => lanes(values.logits[t * classes + c])[lane]).reduce((best, x, c, all) => x > all[best] ? c : best, 0);
    const rights = examples.flatMap((one, lane) => each(word, i => Number(guessed(word + i, lane) === follows(one, word + i))));
    return {loss: mean(values.loss[0]), share: rights.reduce((sum, x) => sum + x) / rights.length};
  }
}

/** In a Worker: trains models side by side, and tells of each step. */
if (typeof document === "undefined") {
  onmessage = ({data: {model, backwards}}) => {
    const all = backwards.map(backward => new Training(model, backward));
    for (let step = 0; step < model.steps; step++) postMessage(all.map(one => one.step()));
  };
}
