"""Drawings of the tape: which operations made a tensor, and from what; as text, as a Mermaid diagram, or as SVG."""
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from ..backend import is_tensor
from ..tape import Node, Op
from ..tensor import Tensor

MERMAID = {ord(character): f"#{ord(character)};" for character in '#&<>"`\n'}  # special characters
LETTER, HEIGHT, LINE, GAP, LANE, MARGIN, BEND = 7, 38, 13, 26, 24, 20, 20  # of the SVG, in pixels


@dataclass
class Box:
    """A tensor in a graph."""

    title: str  # of the op that made it; "" for an input
    name: str | None
    shape: tuple[int, ...]
    parents: list[int]  # the numbers of the op's inputs, in order
    traced: Any = None  # its value and gradient, if `mg.trace` recorded them


@dataclass
class Graph:
    """The tensors that led to another, oldest first. Notebooks show it as SVG.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> print(graph((x * x).sum()))
    0  x     (2,)  input
    1  Mul   (2,)  from 0, 0
    2  Sum   ()    from 1
    """

    boxes: list[Box]
    values: bool = False  # are the numbers shown that `mg.trace` recorded?
    gradients: bool = False

    def label(self, i: int) -> str:
        """x for an input, y = Mul for a result."""
        return " = ".join(filter(None, (self.boxes[i].name, self.boxes[i].title))) or "input"

    def numbers(self, i: int) -> list[str]:
        """The lines of a tensor's value and gradient, if they were recorded and are to be shown."""
        kept, lines = self.boxes[i].traced, []
        if self.values and kept is not None:
            lines += _lines(kept.value)
        if self.gradients and kept is not None and kept.gradient is not None:
            lines += ["gradient", *_lines(kept.gradient)]
        return lines

    def __str__(self) -> str:
        labels = [self.label(i) for i in range(len(self.boxes))]
        shapes = [str(box.shape) for box in self.boxes]
        number, width, shape_width = len(str(len(labels) - 1)), max(map(len, labels)), max(map(len, shapes))
        lines = []
        for i, (label, shape, box) in enumerate(zip(labels, shapes, self.boxes)):
            origin = f"from {', '.join(map(str, box.parents))}" if box.title else "input"
            lines.append(f"{i:{number}}  {label:{max(width, 5)}} {shape:{shape_width}}  {origin}")
            lines += [f"{'':{number}}    {line}".rstrip() for line in self.numbers(i)]
        return "\n".join(lines)

    def mermaid(self) -> str:
        """A flowchart in Mermaid's notation, which many Markdown viewers draw."""
        lines = ["flowchart TD"]
        for i, box in enumerate(self.boxes):
            text = "<br/>".join([line.translate(MERMAID) for line in (self.label(i), str(box.shape), *self.numbers(i))])
            left, right = ("[", "]") if box.title else ("([", "])")
            lines.append(f'    n{i}{left}"{text}"{right}')
        lines += [f"    n{parent} --> n{i}" for i, box in enumerate(self.boxes) for parent in box.parents]
        return "\n".join(lines)

    def _rows(self) -> list[int]:
        """The row of each box: below its lowest parent; an input just above the first node that uses it."""
        rows = [0] * len(self.boxes)
        first_use: dict[int, int] = {}
        for i, box in enumerate(self.boxes):
            if box.parents:
                rows[i] = 1 + max(rows[p] for p in box.parents)
            for p in box.parents:
                first_use[p] = min(rows[i], first_use.get(p, rows[i]))
        return [row if box.parents else first_use.get(i, 1) - 1 for i, (row, box) in enumerate(zip(rows, self.boxes))]

    def _from_left(self) -> dict[int, int]:
        """Numbers for the boxes, so that in each row operands stand in their order."""
        found: dict[int, int] = {}
        waiting = [len(self.boxes) - 1]
        while waiting:
            i = waiting.pop()
            if i not in found:
                found[i] = len(found)
                waiting += reversed(self.boxes[i].parents)
        return found

    def svg(self) -> str:
        """A self-contained picture: arrows go down from inputs to results, past the boxes of the rows between, and end in
        the order of the operands."""
        rows, labels = self._rows(), [self.label(i) for i in range(len(self.boxes))]
        numbers = [self.numbers(i) for i in range(len(self.boxes))]
        longest = max(len(line) for lines in [labels, *numbers] for line in lines)
        box = max(150, LETTER * longest + 16)
        ends = [MARGIN] * (max(rows) + 1)  # how far each row is filled
        heights = [HEIGHT + LINE * max(len(n) for n, r in zip(numbers, rows) if r == row) for row in range(len(ends))]
        tops = [MARGIN + sum(heights[:row]) + GAP * row for row in range(len(ends))]

        edges = [(p, i, slot) for i, box in enumerate(self.boxes) for slot, p in enumerate(box.parents)]
        passages = [(row, edge) for edge in edges for row in range(rows[edge[0]] + 1, rows[edge[1]])]
        from_left = self._from_left()
        items: list[tuple[int, int, Any, int]] = [(from_left[i], row, i, box + MARGIN) for i, row in enumerate(rows)]
        items += [(from_left[edge[0]], row, (row, edge), LANE) for row, edge in passages]
        places: dict[Any, int] = {}  # the left end of each box, by its number, and of each passage, by its row and edge
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
            for x1, row in [*passed, (places[i] + box * (slot + 1) // (len(self.boxes[i].parents) + 1), rows[i])]:
                path += f"C{x} {y + BEND} {x1} {tops[row] - BEND} {x1} {tops[row]}V{tops[row] + heights[row]}"
                x, y = x1, tops[row] + heights[row]
            path = path[: path.rindex("V")]  # end at the top of the result
            parts.append(f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>')
        for i, row in enumerate(rows):
            parts += self._box(i, places[i], tops[row], box, numbers[i])
        return "\n".join(parts + ["</svg>"])

    def _box(self, i: int, x: int, y: int, width: int, numbers: list[str]) -> list[str]:
        """A box with its name, shape and numbers."""
        fill, corner = ("#f1f1ee", 4) if self.boxes[i].title else ("white", HEIGHT // 2)
        middle = x + width // 2
        return [
            f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT + LINE * len(numbers)}" rx="{corner}" fill="{fill}" '
            'stroke="#666"/>'
            f'<text x="{middle}" y="{y + 16}">{escape(self.label(i))}</text>'
            f'<text x="{middle}" y="{y + 31}" fill="#666" font-size="10">{escape(str(self.boxes[i].shape))}</text>',
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
    found: dict[Any, str] = {}
    for name, held in tensors_in(sys._getframe(1)):
        found.setdefault(held.node, name)
    nodes = sorted(led_to(tensor.node, parents_of), key=lambda node: node.order)
    if (values or gradients) and all(node.traced is None for node in nodes):
        raise RuntimeError("graph: no values were recorded; compute this, and run backward, inside `with mg.trace():`")
    number = {node: i for i, node in enumerate(nodes)}

    def box(node: Node) -> Box:
        name = node.name or getattr(node.traced, "name", None) or found.get(node)
        parents = [number[parent] for parent in parents_of(node)]
        return Box(node.title if isinstance(node, Op) else "", name, node.shape, parents, node.traced)

    return Graph([box(node) for node in nodes], values, gradients)


def parents_of(node: Node) -> list[Node]:
    return [parent for parent in node.parents if parent is not None]


def led_to(last: Any, parents_of: Callable[[Any], Iterable[Any]]) -> set[Any]:
    """All that led to the last one, with itself."""
    reached, waiting = {last}, [last]
    while waiting:
        new = {*parents_of(waiting.pop())} - reached
        reached |= new
        waiting += new
    return reached


def _lines(array: np.ndarray) -> list[str]:
    """The numbers, in lines of equal length, so that columns stay aligned when each line is centred."""
    lines = np.array2string(array, precision=4, suppress_small=True, threshold=100).splitlines()
    return [line.ljust(max(map(len, lines))) for line in lines]


OF_NOTEBOOKS = re.compile(r"_+\d*")  # _, _12: what cells returned


def tensors_in(frame: types.FrameType, has_names: bool = True) -> Iterator[tuple[str, Any]]:
    """(name, Tensor) of the variables that the code can see: locals, those of enclosing functions, globals that it uses;
    and of modules their parameters, by path. Without `has_names`, of the parameters only."""
    used = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    for name, value in {**used, **frame.f_locals}.items():
        if isinstance(value, type) or OF_NOTEBOOKS.fullmatch(name):
            continue
        if is_tensor(value):
            if has_names:
                yield name, value
        elif hasattr(value, "named_parameters"):
            yield from value.named_parameters()
