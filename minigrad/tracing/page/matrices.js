/* The matrices: values and gradients, and moving among their cells. */

const grids = new Map(); // "value q": its Grid
const gridOf = ({name, kind}) => grids.get(`${kind} ${name}`);

function isEditable(t) {
  const wanted = extras.editable ? extras.editable.includes(t.name) : t.kind === "input";
  return wanted && !t.step && isFloat(t) && !obstacles.get(t.name);
}

/** W_q with its index lowered. */
function typeset(text) {
  const [letter, ...index] = text.split("_");
  return index.length ? [letter, element("sub", {}, index.join("_"))] : [letter];
}

/** What a caption says beside the symbol: the name, if it is another, and the axes, if both have names. */
function nameOf({name}) {
  const plain = text => text.toLowerCase().replaceAll("_", ""), axes = (extras.axes || {})[name] || [];
  return [plain(symbolOf(name)) === plain(name) ? "" : name, axes.length && axes.every(Boolean) ? axes.join(" × ") : ""].filter(Boolean).join(", ");
}

/** The values or the gradient of a tensor: a table, or several if it has more than two axes. */
class Grid {
  constructor(t, kind) {
    Object.assign(this, {t, kind, cells: [], isEditable: kind === "value" && isEditable(t)});
    this.figure = element("figure", {class: "matrix", "data-name": t.name, "data-of": kind});
    const [rows, columns] = [t.shape[t.shape.length - 2] ?? 1, t.shape[t.shape.length - 1] ?? 1];
    const leading = t.shape.slice(0, -2), labels = extras.labels[t.name] || {};
    for (let k = 0; k < product(leading); k++) {
      const place = leading.length ? ` [${unravel(leading, k).join(",")}]` : "", called = symbol({name: t.name, kind});
      const whole = `${called}${place} ${t.name}, ${t.shape.join(" × ") || "scalar"}`;
      const caption = element("div", {class: "caption", title: whole}, element("b", {}, ...typeset(called)), place);
      if (k === 0 && kind === kindsOf(t.name)[0]) caption.append(element("span", {class: "name"}, nameOf(t)));
      const table = element("table", {role: "grid", "aria-label": whole});
      const made = k === 0 ? madeBy({name: t.name, kind}) : "";
      if (made && made.length <= 8 * columns) caption.append(element("span", {class: "made"}, "= ", formula(made, symbolOf, "inline")));
      this.fill(table, rows, columns, k * rows * columns, labels);
      const parts = [caption, element("div", {class: "scroll"}, table)];
      this.figure.append(...(product(leading) > 1 ? [element("div", {class: "plate"}, ...parts)] : parts));
    }
    if (this.cells.length) this.cells[0].tabIndex = 0;
    grids.set(`${kind} ${t.name}`, this);
  }

  fill(table, rows, columns, start, labels) {
    const isMatrix = this.t.shape.length > 1, head = element("tr");
    if (isMatrix) head.append(element("td", {class: "corner"}));
    for (let j = 0; j < columns; j++) head.append(element("th", {scope: "col"}, String((labels.columns || [])[j] ?? j)));
    if (this.t.shape.length) table.append(element("thead", {}, head));
    const body = table.appendChild(element("tbody"));
    for (let i = 0; i < rows; i++) {
      const tr = body.appendChild(element("tr"));
      if (isMatrix) tr.append(element("th", {scope: "row"}, String((labels.rows || [])[i] ?? i)));
      for (let j = 0; j < columns; j++) tr.append(this.cell(start + i * columns + j));
    }
  }

  cell(place) {
    const index = unravel(this.t.shape, place).join(",");
    const attributes = {"data-tensor": this.t.name, "data-index": index, "data-kind": this.kind, tabindex: -1};
    const name = `${symbol({name: this.t.name, kind: this.kind})} ${index}`.trim();
    const td = this.isEditable ? element("td", {class: "editable"}) : element("td", attributes);
    const cell = this.isEditable ? td.appendChild(element("input", {
      ...attributes, type: "text", inputmode: "decimal", spellcheck: "false", "aria-label": name,
    })) : td;
    Object.assign(cell, {grid: this, place, box: td, label: name});
    this.cells.push(cell);
    return td;
  }

  /** Hatch what a mask hides. */
  markMasked() {
    this.cells.forEach(({box, place}) => {
      const isMasked = computation.isMasked(pass, this.t, unravel(this.t.shape, place));
      box.classList.toggle("masked", isMasked);
      if (isMasked) box.title = "masked: the softmax does not see it";
      else box.removeAttribute("title");
    });
  }

  /** Show numbers; `original` ones are marked where they changed, and wrong ones where another is `expected`. */
  show(data, original, wrong, expected) {
    this.markMasked();
    const largest = Math.max(...data.map(x => Number.isFinite(x) ? Math.abs(x) : 0), 1e-300);
    const isResized = largest !== this.largest;
    this.largest = largest;
    this.cells.forEach((cell, i) => {
      const x = data[i], exact = String(x), box = cell.box, isWrong = wrong.has(i);
      if (isResized || cell.getAttribute("data-value") !== exact) {
        cell.setAttribute("data-value", exact);
        this.paint(cell, x);
      }
      const isSame = Object.is(x, original[i]) || Math.abs(x - original[i]) <= 1e-12 * largest; // but for rounding
      box.classList.toggle("changed", !isSame);
      box.classList.toggle("wrong", isWrong);
      if (isWrong) cell.setAttribute("aria-label", `${shown(x)}, wrong; it should be ${shown(expected[i])}`);
      else if (cell === box) cell.removeAttribute("aria-label");
    });
  }

  /** The text, the sign and the tint of a cell. */
  paint(cell, x, text = isFloat(this.t) ? shown(x) : String(x)) {
    const {box} = cell, sign = x > 0 ? "positive" : x < 0 ? "negative" : Number.isNaN(x) ? "" : "zero";
    if (cell === box) cell.textContent = text;
    else if (cell !== document.activeElement) cell.value = text;
    box.dataset.sign = Number.isFinite(x) ? sign : "none";
    box.style.setProperty("--size", (Number.isFinite(x) ? Math.sqrt(Math.abs(x) / this.largest) : 0).toFixed(2));
  }
}

/** The cell in which something happened: a td, or the input in it; undefined elsewhere. */
function cellOf({target}) {
  const td = target.closest && target.closest("td");
  return [target, td, td && td.firstElementChild].find(node => node && node.grid);
}

const cellAt = ({name, kind, index}) => {
  const grid = gridOf({name, kind});
  return grid && grid.cells[ravel(grid.t.shape, index)];
};

/** Tab goes to one cell of each matrix: the last that had the focus. */
const makeTabStop = cell => cell.grid.cells.forEach(other => { other.tabIndex = other === cell ? 0 : -1; });

/** Arrow keys move within a matrix; in a number that is being edited, only from its ends. */
function moveInGrid(event, cell) {
  const {shape} = cell.grid.t, columns = shape[shape.length - 1] ?? 1, column = cell.place % columns;
  const by = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[event.key];
  const end = {Home: cell.place - column, End: cell.place - column + columns - 1}[event.key];
  if (by === undefined && end === undefined) return;
  if (cell.tagName === "INPUT" && event.key !== "ArrowUp" && event.key !== "ArrowDown") {
    const isAll = cell.selectionStart === 0 && cell.selectionEnd === cell.value.length;
    const isAtEnd = cell.selectionStart === cell.selectionEnd
      && cell.selectionStart === (event.key === "ArrowLeft" ? 0 : cell.value.length) && event.key.startsWith("Arrow");
    if (!isAll && !isAtEnd) return;
  }
  const leavesRow = by === -1 && column === 0 || by === 1 && column === columns - 1;
  const next = cell.grid.cells[end ?? cell.place + by];
  event.preventDefault();
  if (next && !leavesRow) next.focus();
}
