"""Drawings of the tape: which operations made a tensor, and from what; as text, as a Mermaid diagram, or as SVG."""
from dataclasses import dataclass
from html import escape

import numpy as np

from ..tape import Node, Op
from ..tensor import Tensor

MERMAID = {ord(character): f"#{ord(character)};" for character in '#&<>"`\n'}  # special characters
LETTER, HEIGHT, LINE, GAP, LANE, MARGIN, BEND = 7, 38, 13, 26, 24, 20, 20  # of the SVG, in pixels


@dataclass
class Graph:
    """The nodes that led to a tensor, oldest first, with the numbers of their parents. Notebooks show it as SVG.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> x.name = "x"
    >>> print(graph((x * x).sum()))
    0  x     (2,)  leaf
    1  Mul   (2,)  from 0, 0
    2  Sum   ()    from 1
    """

    nodes: list[Node]
    parents: list[list[int]]
    values: bool = False  # are the numbers shown that `mg.trace` recorded?
    gradients: bool = False

    def label(self, i: int) -> str:
        node = self.nodes[i]
        kind = node.title if isinstance(node, Op) else "leaf"
        name = node.name or getattr(node.traced, "name", None)
        if name is None:
            return kind
        return name if kind == "leaf" else f"{name} = {kind}"

    def numbers(self, i: int) -> list[str]:
        """The lines of a node's value and gradient, if they were recorded and are to be shown."""
        kept, lines = self.nodes[i].traced, []
        if self.values and kept is not None:
            lines += _lines(kept.value)
        if self.gradients and kept is not None and kept.gradient is not None:
            lines += ["gradient", *_lines(kept.gradient)]
        return lines

    def __str__(self) -> str:
        labels = [self.label(i) for i in range(len(self.nodes))]
        shapes = [str(node.shape) for node in self.nodes]
        number, width, shape_width = len(str(len(labels) - 1)), max(map(len, labels)), max(map(len, shapes))
        lines = []
        for i, (label, shape, parents) in enumerate(zip(labels, shapes, self.parents)):
            origin = f"from {', '.join(map(str, parents))}" if parents else "leaf"
            lines.append(f"{i:{number}}  {label:{max(width, 5)}} {shape:{shape_width}}  {origin}")
            lines += [f"{'':{number}}    {line}".rstrip() for line in self.numbers(i)]
        return "\n".join(lines)

    def mermaid(self) -> str:
        """A flowchart in Mermaid's notation, which many Markdown viewers draw."""
        lines = ["flowchart TD"]
        for i, node in enumerate(self.nodes):
            text = "<br/>".join([line.translate(MERMAID) for line in (self.label(i), str(node.shape), *self.numbers(i))])
            left, right = ("[", "]") if isinstance(node, Op) else ("([", "])")
            lines.append(f'    n{i}{left}"{text}"{right}')
        lines += [f"    n{parent} --> n{i}" for i, parents in enumerate(self.parents) for parent in parents]
        return "\n".join(lines)

    def _rows(self) -> list[int]:
        """The row of each node: below its lowest parent; a leaf just above the first node that uses it."""
        rows, first_use = [0] * len(self.nodes), {}
        for i, parents in enumerate(self.parents):
            if parents:
                rows[i] = 1 + max(rows[p] for p in parents)
            for p in parents:
                first_use[p] = min(rows[i], first_use.get(p, rows[i]))
        return [row if parents else first_use.get(i, 1) - 1 for i, (row, parents) in enumerate(zip(rows, self.parents))]

    def svg(self) -> str:
        """A self-contained picture: arrows go down from inputs to results, past the boxes of the rows between."""
        rows, labels = self._rows(), [self.label(i) for i in range(len(self.nodes))]
        numbers = [self.numbers(i) for i in range(len(self.nodes))]
        longest = max(len(line) for lines in [labels, *numbers] for line in lines)
        box = max(150, LETTER * longest + 16)
        middle = box // 2
        ends = [MARGIN] * (max(rows) + 1)  # how far each row is filled: by operations, passing arrows, leaves
        heights = [HEIGHT + LINE * max(len(n) for n, r in zip(numbers, rows) if r == row) for row in range(len(ends))]
        tops = [MARGIN + sum(heights[:row]) + GAP * row for row in range(len(ends))]

        def place(row: int, width: int) -> tuple[int, int]:
            ends[row] += width
            return ends[row] - width, row

        places = {i: place(rows[i], box + MARGIN) for i, parents in enumerate(self.parents) if parents}
        edges = [(p, i) for i, parents in enumerate(self.parents) for p in dict.fromkeys(parents)]
        passages = [[place(row, LANE) for row in range(rows[p] + 1, rows[i])] for p, i in edges]
        places |= {i: place(rows[i], box + MARGIN) for i, parents in enumerate(self.parents) if not parents}
        width, height = MARGIN + max(ends), tops[-1] + heights[-1] + MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            'font-size="12" text-anchor="middle">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for (p, i), passage in zip(edges, passages):
            x, row = places[p]
            x, y = x + middle, tops[row] + HEIGHT + LINE * len(numbers[p])
            path = f"M{x} {y}"
            for x1, row in [*passage, (places[i][0] + middle, rows[i])]:
                path += f"C{x} {y + BEND} {x1} {tops[row] - BEND} {x1} {tops[row]}V{tops[row] + heights[row]}"
                x, y = x1, tops[row] + heights[row]
            path = path[: path.rindex("V")]  # end at the top of the result
            parts.append(f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>')
        for i, (x, row) in places.items():
            parts += self._box(i, x, tops[row], box, numbers[i])
        return "\n".join(parts + ["</svg>"])

    def _box(self, i: int, x: int, y: int, width: int, numbers: list[str]) -> list[str]:
        """A node with its name, shape and numbers."""
        fill, corner = ("#e8eefc", 4) if isinstance(self.nodes[i], Op) else ("#e6f4e4", HEIGHT // 2)
        middle = x + width // 2
        return [
            f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT + LINE * len(numbers)}" rx="{corner}" fill="{fill}" '
            'stroke="#666"/>'
            f'<text x="{middle}" y="{y + 16}">{escape(self.label(i))}</text>'
            f'<text x="{middle}" y="{y + 31}" fill="#666" font-size="10">{escape(str(self.nodes[i].shape))}</text>',
            *(f'<text x="{middle}" y="{y + 31 + LINE * line}" font-family="monospace" font-size="11" '
              f'xml:space="preserve">{escape(text)}</text>' for line, text in enumerate(numbers, 1)),
        ]

    _repr_svg_ = svg


def graph(tensor: Tensor, names: dict[str, Tensor] | None = None, values: bool = False, gradients: bool = False) -> Graph:
    """The graph of the operations that made a tensor. `names` (such as dict(model.named_parameters())) label leaves.

    `values` and `gradients` show the numbers too, if the tensor was computed inside `mg.trace`, which records them.
    """
    if tensor.node is None:
        raise RuntimeError("graph: this tensor is not on the tape; it needs an input that requires a gradient")
    for name, named in (names or {}).items():
        if named.node is not None:
            named.node.name = name
    return graph_of(tensor.node, values, gradients)


def graph_of(node: Node, values: bool, gradients: bool) -> Graph:
    """The graph of what leads to a place on the tape."""
    reached, waiting = {node}, [node]
    while waiting:
        new = {parent for parent in waiting.pop().parents if parent is not None} - reached
        reached |= new
        waiting += new
    nodes = sorted(reached, key=lambda node: node.order)
    if (values or gradients) and all(node.traced is None for node in nodes):
        raise RuntimeError("graph: no values were recorded; compute this, and run backward, inside `with mg.trace():`")
    number = {node: i for i, node in enumerate(nodes)}
    parents = [[number[parent] for parent in node.parents if parent is not None] for node in nodes]
    return Graph(nodes, parents, values, gradients)


def _lines(array: np.ndarray) -> list[str]:
    """The numbers, in lines of equal length, so that columns stay aligned when each line is centred."""
    lines = np.array2string(array, precision=4, suppress_small=True, threshold=100).splitlines()
    return [line.ljust(max(map(len, lines))) for line in lines]
