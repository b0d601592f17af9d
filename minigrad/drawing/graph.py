"""Drawings of the tape: which operations made a tensor, and from what; as text, as a Mermaid diagram, or as SVG."""
import sys
from dataclasses import dataclass, field
from html import escape

import numpy as np

from ..tape import Node, Op
from ..tensor import Tensor
from .variables import tensors_in

MERMAID = {ord(character): f"#{ord(character)};" for character in '#&<>"`\n'}  # special characters
LETTER, HEIGHT, LINE, GAP, LANE, MARGIN, BEND = 7, 38, 13, 26, 24, 20, 20  # of the SVG, in pixels


@dataclass
class Graph:
    """The nodes that led to a tensor, oldest first, with the numbers of their parents. Notebooks show it as SVG.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> print(graph((x * x).sum()))
    0  x     (2,)  input
    1  Mul   (2,)  from 0, 0
    2  Sum   ()    from 1
    """

    nodes: list[Node]
    parents: list[list[int]]
    values: bool = False  # are the numbers shown that `mg.trace` recorded?
    gradients: bool = False
    names: dict[Node, str] = field(default_factory=dict)  # of variables

    def label(self, i: int) -> str:
        """x for an input, y = Mul for a result."""
        node = self.nodes[i]
        name = node.name or getattr(node.traced, "name", None) or self.names.get(node)
        return " = ".join(filter(None, (name, node.title))) if isinstance(node, Op) else name or "input"

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
            origin = f"from {', '.join(map(str, parents))}" if parents else "input"
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
        """The row of each node: below its lowest parent; an input just above the first node that uses it."""
        rows, first_use = [0] * len(self.nodes), {}
        for i, parents in enumerate(self.parents):
            if parents:
                rows[i] = 1 + max(rows[p] for p in parents)
            for p in parents:
                first_use[p] = min(rows[i], first_use.get(p, rows[i]))
        return [row if parents else first_use.get(i, 1) - 1 for i, (row, parents) in enumerate(zip(rows, self.parents))]

    def _from_left(self) -> dict[int, int]:
        """Numbers for the nodes, so that in each row operands stand in their order."""
        found, waiting = {}, [len(self.nodes) - 1]
        while waiting:
            i = waiting.pop()
            if i not in found:
                found[i] = len(found)
                waiting += reversed(self.parents[i])
        return found

    def svg(self) -> str:
        """A self-contained picture: arrows go down from inputs to results, past the boxes of the rows between, and end in
        the order of the operands."""
        rows, labels = self._rows(), [self.label(i) for i in range(len(self.nodes))]
        numbers = [self.numbers(i) for i in range(len(self.nodes))]
        longest = max(len(line) for lines in [labels, *numbers] for line in lines)
        box = max(150, LETTER * longest + 16)
        ends = [MARGIN] * (max(rows) + 1)  # how far each row is filled
        heights = [HEIGHT + LINE * max(len(n) for n, r in zip(numbers, rows) if r == row) for row in range(len(ends))]
        tops = [MARGIN + sum(heights[:row]) + GAP * row for row in range(len(ends))]

        edges = [(p, i, slot) for i, parents in enumerate(self.parents) for slot, p in enumerate(parents)]
        passages = [(row, edge) for edge in edges for row in range(rows[edge[0]] + 1, rows[edge[1]])]
        from_left = self._from_left()
        items = [(from_left[i], row, i, box + MARGIN) for i, row in enumerate(rows)]
        items += [(from_left[edge[0]], row, (row, edge), LANE) for row, edge in passages]
        places = {}  # the left end of each box, by its node, and of each passage, by its row and edge
        for _, row, item, width in sorted(items, key=lambda item: item[:2]):
            places[item] = ends[row]
            ends[row] += width
        width, height = MARGIN + max(ends), tops[-1] + heights[-1] + MARGIN
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            'font-size="12" text-anchor="middle">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for edge in edges:
            p, i, slot = edge
            x, y = places[p] + box // 2, tops[rows[p]] + HEIGHT + LINE * len(numbers[p])
            path = f"M{x} {y}"
            passed = [(places[row, edge], row) for row in range(rows[p] + 1, rows[i])]
            for x1, row in [*passed, (places[i] + box * (slot + 1) // (len(self.parents[i]) + 1), rows[i])]:
                path += f"C{x} {y + BEND} {x1} {tops[row] - BEND} {x1} {tops[row]}V{tops[row] + heights[row]}"
                x, y = x1, tops[row] + heights[row]
            path = path[: path.rindex("V")]  # end at the top of the result
            parts.append(f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>')
        for i, row in enumerate(rows):
            parts += self._box(i, places[i], tops[row], box, numbers[i])
        return "\n".join(parts + ["</svg>"])

    def _box(self, i: int, x: int, y: int, width: int, numbers: list[str]) -> list[str]:
        """A node with its name, shape and numbers."""
        fill, corner = ("#f1f1ee", 4) if isinstance(self.nodes[i], Op) else ("white", HEIGHT // 2)
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
    """The graph of the operations that made a tensor, with the names of the variables and parameters that the caller sees.

    Before those go a tensor's own `name`, and `names` (such as dict(model.named_parameters())). `values` and `gradients`
    show the numbers too, if the tensor was computed inside `mg.trace`, which records them.
    """
    if tensor.node is None:
        raise RuntimeError("graph: this tensor is not on the tape; it needs an input that requires a gradient")
    for name, named in (names or {}).items():
        if named.node is not None:
            named.node.name = name
    found = {}
    for name, held in tensors_in(sys._getframe(1)):
        found.setdefault(held.node, name)
    return graph_of(tensor.node, values, gradients, found)


def graph_of(node: Node, values: bool, gradients: bool, names: dict[Node, str] | None = None) -> Graph:
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
    return Graph(nodes, parents, values, gradients, names or {})


def _lines(array: np.ndarray) -> list[str]:
    """The numbers, in lines of equal length, so that columns stay aligned when each line is centred."""
    lines = np.array2string(array, precision=4, suppress_small=True, threshold=100).splitlines()
    return [line.ljust(max(map(len, lines))) for line in lines]
