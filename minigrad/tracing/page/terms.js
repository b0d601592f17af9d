/* Writes out the terms of a number, in names and in numbers. */

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

  sum({parts}) {
    const written = parts.slice(0, MOST_PARTS).flatMap((part, i) => [...(i ? [" + "] : []), ...this.nodes(part, i ? 0.5 : 0)]);
    return parts.length > MOST_PARTS ? [...written, ` + … and ${parts.length - MOST_PARTS} more`] : parts.length ? written : ["0"];
  }

  number(node) { return [Number.isInteger(node.value) ? String(node.value) : shown(node.value)]; }

  source(node) {
    return [this.reference(node, this.inNumbers ? [shown(node.value)] : [this.symbol(node.of), placed(node.index)])];
  }

  aside(node) { return this.inNumbers ? [shown(node.value)] : [element("em", {}, node.name), placed(node.index)]; }

  add({parts: [a, b]}) { return [...this.nodes(a), " + ", ...this.nodes(b, 0.5)]; }
  sub({parts: [a, b]}) { return [...this.nodes(a), " − ", ...this.nodes(b, 1)]; }
  mul({parts: [a, b]}) { return [...this.nodes(a, 1), " · ", ...this.nodes(b, b.is === "div" ? 2 : 1)]; }
  div({parts: [a, b]}) { return [...this.nodes(a, 1), " / ", ...this.nodes(b, 2)]; }
  neg({parts: [a]}) { return ["−", ...this.nodes(a, 2)]; }
  pow({parts: [a, b]}) { return [...this.nodes(a, 4), ...raised(this.nodes(b))]; }
  exp({parts: [a]}) { return ["e", ...raised(this.nodes(a))]; }
  sqrt({parts: [a]}) { return ["√", "(", ...this.nodes(a), ")"]; }
  called(name, parts) {
    return [`${name}(`, ...parts.flatMap((part, i) => [...(i ? [", "] : []), ...this.nodes(part)]), ")"];
  }
}

/** An exponent; for screen readers, between ^( and ). */
const raised = nodes => [unseen("^("), element("sup", {}, ...nodes), unseen(")")];
const unseen = text => element("span", {class: "unseen"}, text);
const placed = index => element("span", {class: "at"}, bracketed(index));
const bracketed = index => index.length ? `[${index.join(",")}]` : "";

/** The asides of a term, and their asides, without repetitions. */
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
