"""The tape, drawn: which operation made a tensor, from what; as text, as a Mermaid diagram, or as SVG."""
from dataclasses import dataclass
from html import escape

from .tape import Node, Op
from .tensor import Tensor

COLUMN, ROW, BOX, MARGIN = 170, 64, (150, 38), 20  # of the SVG, in pixels


@dataclass
class Graph:
    """The nodes above a tensor, the oldest first, with the numbers of their parents. In a notebook it shows as SVG.

    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> x.name = "x"
    >>> print(graph((x * x).sum()))
    0  x     (2,)  leaf
    1  Mul   (2,)  from 0, 0
    2  Sum   ()    from 1
    """

    nodes: list[Node]
    parents: list[list[int]]

    def label(self, i: int) -> str:
        node = self.nodes[i]
        kind = node.title if isinstance(node, Op) else "leaf"
        if node.name is None:
            return kind
        return node.name if kind == "leaf" else f"{node.name} = {kind}"

    def __str__(self) -> str:
        labels = [self.label(i) for i in range(len(self.nodes))]
        shapes = [str(node.shape) for node in self.nodes]
        number, width, shape_width = len(str(len(labels) - 1)), max(map(len, labels)), max(map(len, shapes))
        lines = []
        for i, (label, shape, parents) in enumerate(zip(labels, shapes, self.parents)):
            origin = f"from {', '.join(map(str, parents))}" if parents else "leaf"
            lines.append(f"{i:{number}}  {label:{max(width, 5)}} {shape:{shape_width}}  {origin}")
        return "\n".join(lines)

    def mermaid(self) -> str:
        """A flowchart in Mermaid's notation, which many Markdown viewers draw."""
        lines = ["flowchart TD"]
        for i, node in enumerate(self.nodes):
            text = f"{self.label(i)}<br/>{node.shape}".replace('"', "#quot;")
            left, right = ("[", "]") if isinstance(node, Op) else ("([", "])")
            lines.append(f'    n{i}{left}"{text}"{right}')
        lines += [f"    n{parent} --> n{i}" for i, parents in enumerate(self.parents) for parent in parents]
        return "\n".join(lines)

    def svg(self) -> str:
        """A picture of its own: each node below its lowest parent, arrows from inputs to results."""
        depth: list[int] = []
        for parents in self.parents:
            depth.append(1 + max((depth[p] for p in parents), default=-1))
        in_row: dict[int, int] = {}
        places = []
        for row in depth:
            column = in_row.get(row, 0)
            in_row[row] = column + 1
            places.append((MARGIN + column * COLUMN, MARGIN + row * ROW))
        width = 2 * MARGIN + COLUMN * max(in_row.values())
        height = 2 * MARGIN + ROW * (max(depth) + 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            'font-size="12" text-anchor="middle">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for i, parents in enumerate(self.parents):
            for parent in parents:
                (x0, y0), (x1, y1) = places[parent], places[i]
                x0, y0, x1 = x0 + BOX[0] // 2, y0 + BOX[1], x1 + BOX[0] // 2
                bend = max(24, (y1 - y0) // 2)
                path = f"M{x0} {y0}C{x0} {y0 + bend} {x1} {y1 - bend} {x1} {y1}"
                parts.append(f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>')
        for i, (x, y) in enumerate(places):
            fill, corner = ("#e8eefc", 4) if isinstance(self.nodes[i], Op) else ("#e6f4e4", BOX[1] // 2)
            middle = x + BOX[0] // 2
            parts.append(
                f'<rect x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="{corner}" fill="{fill}" stroke="#666"/>'
                f'<text x="{middle}" y="{y + 16}">{escape(self.label(i))}</text>'
                f'<text x="{middle}" y="{y + 31}" fill="#666" font-size="10">{escape(str(self.nodes[i].shape))}</text>'
            )
        return "\n".join(parts + ["</svg>"])

    _repr_svg_ = svg


def graph(tensor: Tensor, names: dict[str, Tensor] | None = None) -> Graph:
    """The graph of the operations that made a tensor. `names` (such as dict(model.named_parameters())) label leaves."""
    if tensor.node is None:
        raise RuntimeError("graph: this tensor is not on the tape; it needs an input that requires a gradient")
    reached, waiting = {tensor.node}, [tensor.node]
    while waiting:
        node = waiting.pop()
        for parent in node.parents if isinstance(node, Op) else ():
            if parent is not None and parent not in reached:
                reached.add(parent)
                waiting.append(parent)
    nodes = sorted(reached, key=lambda node: node.order)
    number = {node: i for i, node in enumerate(nodes)}
    for name, named in (names or {}).items():
        if named.node is not None:
            named.node.name = name
    parents = [
        [number[p] for p in node.parents if p is not None] if isinstance(node, Op) else [] for node in nodes
    ]
    return Graph(nodes, parents)
