/* Formulas as MathML, and numbers as text. Users' text only ever becomes text nodes, never markup. */

const MATHML = "http://www.w3.org/1998/Math/MathML";

/** `attributes` that are functions listen to the event of that name. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  if (["input", "select"].includes(name)) made.autocomplete = "off"; // else a reload restores what the page no longer shows
  for (const [key, value] of Object.entries(attributes)) if (value.call) made.addEventListener(key, value); else made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function math(name, ...children) {
  const made = document.createElementNS(MATHML, name);
  made.append(...children);
  return made;
}

const withAttribute = (node, name, value) => { node.setAttribute(name, value); return node; };

/** A number as the page shows it, rounded; data-value has all its digits. */
function shown(x) {
  const size = Math.abs(x);
  if (Number.isNaN(x)) return "NaN";
  if (size === Infinity) return x > 0 ? "inf" : "-inf";
  if (size === 0) return "0";
  if (size >= 1000 || size < 0.001) return x.toExponential(1);
  return x.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

/** Scientific notation, with the exponent raised. */
function inTens(x) {
  const [digits, exponent] = x.toExponential(1).split("e");
  return Number.isFinite(x) && x !== 0 ? [`${digits} · 10`, element("sup", {}, String(Number(exponent)))] : [shown(x)];
}

/* ------------------------------------------------------------------------------------------------ formulas */

/** A formula as MathML, of text such as `dS_ij = P_ij (dP_ij - sum_k dP_ik P_ik)`. */
const formula = (text, rename = name => name, display = "block") =>
  withAttribute(math("math", ...new FormulaText(text, rename).sequence([])), "display", display);

const LONG = 24; // characters of a parenthesis in which a line may break
const SPLITTING = new Set(["=", "+=", "+", "−", "⋅"]);

/** A formula as pieces of MathML, between which a line breaks where it is full: before a sign or a space, or after a comma. */
function breakable(text, rename = name => name, isLarge = true) {
  const pieces = [[]];
  const add = node => {
    const isGroup = node.localName === "mrow" && node.firstChild && node.firstChild.textContent === "(";
    if (isGroup && node.textContent.length > LONG) return [...node.childNodes].forEach(add);
    if (SPLITTING.has(node.textContent) || node.localName === "mspace") {
      if (node.localName === "mo") node.setAttribute("form", "infix"); // though it comes first in its piece
      if (pieces.at(-1).length) pieces.push([]);
    }
    pieces.at(-1).push(node);
    if (node.textContent === ",") pieces.push([]);
  };
  new FormulaText(text, rename).sequence([]).forEach(add);
  return pieces.filter(nodes => nodes.length).map(nodes => withAttribute(math("math", ...nodes), "displaystyle", isLarge));
}

/** A line of text with formulas in `...`, and *emphasis*. */
function derivation(line, rename) {
  const made = element("p");
  line.split("`").forEach((part, i) => {
    if (i % 2) return made.append(...breakable(part, rename, false));
    const [punctuation] = part.match(/^[.,;:)]*/);
    if (punctuation) made.append(element("span", {class: "together"}, made.lastChild, punctuation));
    part.slice(punctuation.length).split("*").forEach((words, k) => made.append(k % 2 ? element("em", {}, words) : words));
  });
  return made;
}

const GREEK = {
  alpha: "α", beta: "β", gamma: "γ", eps: "ε", mu: "μ", sigma: "σ", pi: "π", delta: "δ", lambda: "λ", theta: "θ", Phi: "Φ", phi: "φ",
};
const SIGNS = {"*": "⋅", "-": "−", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "+=": "+="};
const FUNCTIONS = new Set((
  "log exp sin cos tan tanh sinh cosh max min softmax gelu mean floor trunc sign sigmoid erf erfc atan2 step norm cov tr"
).split(" "));

/** Reads the text of a formula: _ and ^ bind to what follows, / makes a fraction of its neighbours. */
class FormulaText {
  constructor(text, rename) {
    this.tokens = text.match(/[\p{L}][\p{L}\p{M}']*|\d+(?:\.\d+)?(?:e-?\d+)?|\.\.\.|<=|>=|!=|->|\+=|\s+|./gu) || [];
    this.rename = rename;
    this.next = 0;
  }

  /** Skips spaces, and returns them. */
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
    this.rename = rename; // indices are not renamed
    const made = this.scriptAtom();
    this.rename = outer;
    return made;
  }

  /** ij is two indices; a longer word, or a name, is one. */
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
    if (this.tokens[this.next] === "_" && this.tokens[this.next + 1] === "hat") return this.hat(token);
    if (/^\p{L}/u.test(token)) return this.word(token);
    if (token === "|") return withAttribute(math("mo", "|"), "stretchy", "false");
    return math("mo", SIGNS[token] || token);
  }

  /** x_hat or dx_hat, whose x is no tensor's name. */
  hat(token) {
    this.next += 2;
    const hat = withAttribute(math("mover", math("mi", token.at(-1)), math("mo", "^")), "accent", "true");
    return token.length > 1 ? math("mrow", math("mi", token.slice(0, -1)), hat) : hat;
  }

  word(token) {
    const renamed = this.rename(token);
    if (/^d?\p{L}$/u.test(renamed)) return withAttribute(math("mi", renamed), "class", "letter"); // so that dP slants as P does
    if (renamed !== token) return math("mi", renamed);
    if (GREEK[token]) return math("mi", GREEK[token]);
    if (FUNCTIONS.has(token)) return math("mi", token);
    return /^\p{Lu}/u.test(token) ? math("mi", token) : math("mtext", `\u2009${token}\u2009`); // words have space
  }
}

/** Two factors, as in `s dS K`, which would otherwise read as one word; or two formulas with two spaces between them. */
function separates(before, part, space) {
  const isFactor = node => ["mi", "msub", "msup", "msubsup"].includes(node.localName);
  return space.length > 1 ? before.textContent === "," : isFactor(before) && isFactor(part);
}

const spaceOf = space => withAttribute(math("mspace"), "width", space.length > 1 ? "1em" : "0.17em");

/** A group without its parentheses, which a fraction bar, a root or a superscript makes redundant. */
function bare(node) {
  const [first] = node.childNodes, final = node.lastChild;
  if (node.localName === "mrow" && first && first.textContent === "(" && final.textContent === ")") {
    return math("mrow", ...[...node.childNodes].slice(1, -1));
  }
  return node;
}
