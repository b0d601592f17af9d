"use strict";
/* Formulas as MathML, numbers as text, and terms written out. Text becomes text nodes only: nothing that a user wrote is
   read as markup. */

const MATHML = "http://www.w3.org/1998/Math/MathML";
const MATHML_ELEMENTS = new Set((
  "math mrow mi mo mn ms mtext mspace mstyle mpadded mphantom msub msup msubsup munder mover munderover mfrac msqrt mroot "
  + "mtable mtr mtd mmultiscripts"
).split(" "));
const MATHML_ATTRIBUTES = new Set("mathvariant stretchy separator fence form lspace rspace width displaystyle display "
  + "linethickness columnalign accent accentunder movablelimits".split(" "));

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function math(name, ...children) {
  const made = document.createElementNS(MATHML, name);
  made.append(...children);
  return made;
}

/** A number as the page shows it: all that is not in data-value is rounded. */
function shown(x) {
  const size = Math.abs(x);
  if (Number.isNaN(x)) return "NaN";
  if (size === Infinity) return x > 0 ? "inf" : "-inf";
  if (size === 0) return "0";
  if (size >= 1000 || size < 0.001) return x.toExponential(1);
  return x.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

/** "1e-7" with a raised exponent. */
function inTens(x) {
  const [digits, exponent] = x.toExponential(1).split("e");
  return Number.isFinite(x) && x !== 0 ? [`${digits} · 10`, element("sup", {}, String(Number(exponent)))] : [shown(x)];
}

/* ------------------------------------------------------------------------------------------------ formulas */

/** A formula as MathML: of "<math>...</math>", whose known elements are kept, or of text in the notation of the extras. */
function formula(text, rename = name => name, display = "block") {
  if (/^\s*<math[\s>]/.test(text)) {
    const made = copiedMath(new DOMParser().parseFromString(text, "application/xml").documentElement);
    made.setAttribute("display", display);
    return made;
  }
  const made = math("math", ...new FormulaText(text, rename).sequence([]));
  made.setAttribute("display", display);
  return made;
}

/** A line of text, in which what stands in `...` is a formula. */
const derivation = (line, rename) => element("p", {}, ...line.split("`").map(
  (part, i) => i % 2 ? formula(part, rename, "inline") : part,
));

function copiedMath(node) {
  const made = document.createElementNS(MATHML, MATHML_ELEMENTS.has(node.localName) ? node.localName : "mrow");
  for (const {name, value} of node.attributes) if (MATHML_ATTRIBUTES.has(name)) made.setAttribute(name, value);
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE) made.append(copiedMath(child));
  }
  return made;
}

const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", eps: "ε", mu: "μ", sigma: "σ", pi: "π", delta: "δ", lambda: "λ", theta: "θ",
};
const SIGNS = {"*": "⋅", "-": "−", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "+=": "+="};
const FUNCTIONS = new Set((
  "log exp sin cos tan tanh sinh cosh max min softmax gelu mean floor trunc sign sigmoid erf atan2 step norm cov tr"
).split(" "));

/** Reads `dS_ij = P_ij (dP_ij - sum_k dP_ik P_ik)`: _ and ^ bind to what follows, / makes a fraction of its neighbours. */
class FormulaText {
  constructor(text, rename) {
    this.tokens = text.match(/[\p{L}][\p{L}\p{M}']*|\d+(?:\.\d+)?(?:e-?\d+)?|\.\.\.|<=|>=|!=|->|\+=|\s+|./gu) || [];
    this.rename = rename;
    this.next = 0;
  }

  /** Returns the space that was there. */
  skipSpace() {
    const start = this.next;
    while (/^\s+$/.test(this.tokens[this.next] || "")) this.next++;
    return this.tokens.slice(start, this.next).join("");
  }

  sequence(closing) {
    const parts = [];
    for (;;) {
      const space = this.skipSpace();
      const token = this.tokens[this.next];
      if (token === undefined || closing.includes(token)) return parts;
      if (token === "/" && parts.length) {
        this.next++;
        this.skipSpace();
        const above = parts.pop(), below = this.scripted();
        parts.push(math("mfrac", bare(above), bare(below)));
      } else {
        const before = parts.at(-1), part = this.scripted();
        if (space && before && separates(before, part, space)) parts.push(spaceOf(space));
        parts.push(part);
      }
    }
  }

  scripted() {
    const isSum = this.tokens[this.next] === "sum";
    const base = this.atom();
    let below = null, above = null;
    while ((this.tokens[this.next] === "_" && !below) || (this.tokens[this.next] === "^" && !above)) {
      const sign = this.tokens[this.next++];
      const script = this.script(sign === "_" ? name => name : this.rename);
      if (sign === "_") below = script; else above = script;
    }
    if (below && above) return math(isSum ? "munderover" : "msubsup", base, below, above);
    if (below) return math(isSum ? "munder" : "msub", base, below);
    return above ? math("msup", base, above) : base;
  }

  script(rename) {
    const outer = this.rename;
    this.rename = rename; // an index is no tensor
    const made = this.scriptAtom();
    this.rename = outer;
    return made;
  }

  /** ij is two indices; a word of more letters, or one that is a name, is one. */
  scriptAtom() {
    const token = this.tokens[this.next];
    if (/^\p{L}{2,3}$/u.test(token || "") && this.rename(token) === token && !GREEK[token]) {
      this.next++;
      return math("mrow", ...[...token].map(letter => math("mi", letter)));
    }
    return bare(this.atom());
  }

  atom() {
    const token = this.tokens[this.next++];
    if (token === undefined) return math("mrow");
    const closing = {"(": ")", "[": "]", "{": "}"}[token];
    if (closing) {
      const inside = this.sequence([closing]);
      this.next++;
      return token === "{" ? math("mrow", ...inside) : math("mrow", math("mo", token), ...inside, math("mo", closing));
    }
    if (token === "sqrt") { this.skipSpace(); return math("msqrt", bare(this.atom())); }
    if (token === "sum") return math("mo", "∑");
    if (token === "inf") return math("mi", "∞");
    if (/^\d/.test(token)) return math("mn", token);
    if (/^\p{L}/u.test(token)) return this.word(token);
    if (token === "|") { const bar = math("mo", "|"); bar.setAttribute("stretchy", "false"); return bar; }
    return math("mo", SIGNS[token] || token);
  }

  word(token) {
    const renamed = this.rename(token);
    if (/^d?\p{L}$/u.test(renamed)) {
      const letter = math("mi", renamed);
      letter.setAttribute("class", "letter"); // so that dP slants as P does
      return letter;
    }
    if (renamed !== token) return math("mi", renamed);
    if (GREEK[token]) return math("mi", GREEK[token]);
    if (FUNCTIONS.has(token)) return math("mi", token);
    return /^\p{Lu}/u.test(token) ? math("mi", token) : math("mtext", `\u2009${token}\u2009`); // words have space
  }
}

/** Two factors, as in `s dS K`, which would else read as one word; or two formulas with two spaces between them. */
function separates(before, part, space) {
  const isFactor = node => ["mi", "msub", "msup", "msubsup"].includes(node.localName);
  return space.length > 1 ? before.textContent === "," : isFactor(before) && isFactor(part);
}

function spaceOf(space) {
  const made = math("mspace");
  made.setAttribute("width", space.length > 1 ? "1em" : "0.17em");
  return made;
}

/** A group without its round brackets, where a fraction bar, a root or being raised says the same. */
function bare(node) {
  const [first] = node.childNodes, final = node.lastChild;
  if (node.localName === "mrow" && first && first.textContent === "(" && final.textContent === ")") {
    return math("mrow", ...[...node.childNodes].slice(1, -1));
  }
  return node;
}

/* ------------------------------------------------------------------------------------------------ terms written out */

const MOST_PARTS = 48; // of a sum that are written out
const STRENGTH = {add: 1, sub: 1, sum: 1, neg: 1, mul: 2, div: 2, pow: 4};

/** A term in names, or in numbers, as nodes. `reference(node, text)` makes the span of a number that can be pointed at. */
class Written {
  constructor(inNumbers, symbol, reference) { Object.assign(this, {inNumbers, symbol, reference}); }

  nodes(node, within = 0) {
    const strength = STRENGTH[node.is] || 9;
    const inside = this[node.is] ? this[node.is](node) : this.called(node.is, node.parts);
    const isSingle = ["source", "aside", "number"].includes(node.is);
    const isNegative = this.inNumbers && isSingle && within > 0 && node.value < 0;
    const isOneSum = node.is === "sum" && node.parts.length <= 1;
    return (strength <= within && !isOneSum) || isNegative ? ["(", ...inside, ")"] : inside;
  }

  joined(parts, sign, within) {
    if (!parts.length) return ["0"];
    if (parts.length === 1) return this.nodes(parts[0], 0);
    const written = parts.slice(0, MOST_PARTS).flatMap(
      (part, i) => [...(i ? [sign] : []), ...this.nodes(part, i || within > 1 ? within : 0)],
    );
    return parts.length > MOST_PARTS ? [...written, `${sign}… and ${parts.length - MOST_PARTS} more`] : written;
  }

  number(node) { return [Number.isInteger(node.value) ? String(node.value) : shown(node.value)]; }

  source(node) {
    if (node.of.name === null) return this.number(node);
    return [this.reference(node, this.inNumbers ? [shown(node.value)] : [this.symbol(node.of), placed(node.index)])];
  }

  aside(node) { return this.inNumbers ? [shown(node.value)] : [element("em", {}, node.name), placed(node.index)]; }
  sum(node) { return this.joined(node.parts, " + ", 0.5); }

  add({parts: [a, b]}) { return [...this.nodes(a), " + ", ...this.nodes(b, 0.5)]; }
  sub({parts: [a, b]}) { return [...this.nodes(a), " − ", ...this.nodes(b, 1)]; }
  mul({parts: [a, b]}) { return [...this.nodes(a, 1), " · ", ...this.nodes(b, b.is === "div" ? 2 : 1)]; }
  div({parts: [a, b]}) { return [...this.nodes(a, 1), " / ", ...this.nodes(b, 2)]; }
  neg({parts: [a]}) { return ["−", ...this.nodes(a, 2)]; }
  pow({parts: [a, b]}) { return [...this.nodes(a, 4), ...raised(this.nodes(b))]; }
  exp({parts: [a]}) { return ["e", ...raised(this.nodes(a))]; }
  sqrt({parts: [a]}) { return ["√", "(", ...this.nodes(a), ")"]; }
  call(node) { return this.called(node.name, node.parts); }
  called(name, parts) {
    return [`${name}(`, ...parts.flatMap((part, i) => [...(i ? [", "] : []), ...this.nodes(part)]), ")"];
  }
}

/** An exponent; to those who hear it, and cannot see where it ends, with ^( and ). */
const raised = nodes => [unseen("^("), element("sup", {}, ...nodes), unseen(")")];
const unseen = text => element("span", {class: "unseen"}, text);
const placed = index => element("span", {class: "at"}, bracketed(index));
const bracketed = index => index.length ? `[${index.join(",")}]` : "";

/** The asides of a term and of those asides, each once. */
function asidesOf(root, found = new Map()) {
  const visit = node => {
    if (node.is === "aside" && !found.has(`${node.name} ${node.index}`) && found.size < 6) {
      found.set(`${node.name} ${node.index}`, node);
      asidesOf(node.written(), found);
    }
    node.parts.forEach(visit);
  };
  visit(root);
  return found;
}
