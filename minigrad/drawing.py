"""The tape, drawn: which operation made a tensor, from what; as text, as a Mermaid diagram, or as SVG."""
from dataclasses import dataclass
from html import escape

from .tape import Node, Op
from .tensor import Tensor

LETTER, HEIGHT, GAP, LANE, MARGIN, BEND = 7, 38, 26, 24, 20, 20  # of the SVG, in pixels


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

    def _rows(self) -> list[int]:
        """How far down each node stands: below its lowest parent; a leaf just above the first node that uses it."""
        rows, first_use = [0] * len(self.nodes), {}
        for i, parents in enumerate(self.parents):
            if parents:
                rows[i] = 1 + max(rows[p] for p in parents)
            for p in parents:
                first_use[p] = min(rows[i], first_use.get(p, rows[i]))
        return [row if parents else first_use.get(i, 1) - 1 for i, (row, parents) in enumerate(zip(rows, self.parents))]

    def svg(self) -> str:
        """A picture of its own: arrows go down from inputs to results, past the boxes of the rows between."""
        rows, labels = self._rows(), [self.label(i) for i in range(len(self.nodes))]
        box = max(150, LETTER * max(map(len, labels)) + 16)
        middle = box // 2
        ends = [MARGIN] * (max(rows) + 1)  # how far each row is filled: with operations, arrows that pass, leaves

        def place(row: int, width: int) -> tuple[int, int]:
            ends[row] += width
            return ends[row] - width, MARGIN + row * (HEIGHT + GAP)

        places = {i: place(rows[i], box + MARGIN) for i, parents in enumerate(self.parents) if parents}
        edges = [(p, i) for i, parents in enumerate(self.parents) for p in dict.fromkeys(parents)]
        passages = [[place(row, LANE) for row in range(rows[p] + 1, rows[i])] for p, i in edges]
        places |= {i: place(rows[i], box + MARGIN) for i, parents in enumerate(self.parents) if not parents}
        width, height = MARGIN + max(ends), 2 * MARGIN + (HEIGHT + GAP) * len(ends)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
            'font-size="12" text-anchor="middle">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#666"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for (p, i), passage in zip(edges, passages):
            x, y = places[p][0] + middle, places[p][1] + HEIGHT
            path = f"M{x} {y}"
            for x1, y1 in [*passage, (places[i][0] + middle, places[i][1])]:
                path += f"C{x} {y + BEND} {x1} {y1 - BEND} {x1} {y1}V{y1 + HEIGHT}"
                x, y = x1, y1 + HEIGHT
            path = path[: path.rindex("V")]  # it ends at the top of the result
            parts.append(f'<path d="{path}" fill="none" stroke="#666" marker-end="url(#tip)"/>')
        for i, (x, y) in places.items():
            shape = escape(str(self.nodes[i].shape))
            fill, corner = ("#e8eefc", 4) if isinstance(self.nodes[i], Op) else ("#e6f4e4", HEIGHT // 2)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{box}" height="{HEIGHT}" rx="{corner}" fill="{fill}" stroke="#666"/>'
                f'<text x="{x + middle}" y="{y + 16}">{escape(labels[i])}</text>'
                f'<text x="{x + middle}" y="{y + 31}" fill="#666" font-size="10">{shape}</text>'
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
