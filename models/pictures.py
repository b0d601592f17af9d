"""Pictures of attention maps, a row for each layer, a panel for each head, tokens on the axes; the files of pictures."""
import dataclasses
import functools
import os
import pathlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minigrad.drawing.figures import has_glyph, new_figure, sizes
from minigrad.serialization import replacing

PICTURE = "attention.png"  # in a run's folder
MOST_LABELS = 64  # tokens on an axis; longer ones show positions instead
LONGEST_NAME = 20  # characters of a label
MOST_PANELS = 144  # heads in one picture; further layers are left out
LARGEST = 8000  # pixels per side
FORMATS = {  # {ending: (how such a file begins, the key of a note in its metadata, how the note looks in the file)}
    ".png": (b"\x89PNG", "Description", "{}"), ".pdf": (b"%PDF", "Subject", "/Subject ({})"),
    ".svg": (b"<?xml", "Description", "<dc:description>{}</dc:description>"),
}
OURS = "minigrad: attention maps"  # in the metadata of the file
NUMBERED = re.compile(r"(?:(.+)\.)?\w+\.(\d+)(?:\.(.+))?")  # the path of a block, or of a layer in it
VISIBLE = {" ": "␣", "\n": "↵", "\t": "⇥"}


@dataclasses.dataclass(frozen=True)
class LabelledMap:
    """The attention maps of a layer, with labels for its rows and columns."""

    title: str  # "decoder, layer 2, cross-attention"
    layer: int  # from 1
    weights: np.ndarray  # (H, Tq, Tk)
    queries: Sequence[str]  # (Tq,)
    keys: Sequence[str]  # (Tk,)
    heads: Sequence[str] = ()  # (H,), by default "head 1" and so on

    @property
    def hides_future(self) -> bool:
        """Is it causal, with all weights above the diagonal zero?"""
        queries, keys = self.weights.shape[1:]
        return queries == keys > 1 and not np.triu(self.weights, 1).any()

    def shown(self) -> np.ma.MaskedArray:
        """The weights, with the hidden future masked."""
        is_future = np.triu(np.ones_like(self.weights, dtype=bool), 1)
        return np.ma.array(self.weights, mask=is_future & self.hides_future)

    def of_head(self, number: int) -> "LabelledMap":
        """The map of one head, from 1."""
        return dataclasses.replace(self, weights=self.weights[number - 1 : number], heads=[f"head {number}"])

    def titles(self) -> list[str]:
        return [f"{self.title}, {head}" for head in self.heads or [f"head {i + 1}" for i in range(len(self.weights))]]


def labelled(maps: dict[str, np.ndarray], axes: Callable[[str], tuple[Sequence[str], Sequence[str]]]) -> list[LabelledMap]:
    """The `attention_maps` of one sequence, with labels from axes(path): those of the queries and of the keys.

    >>> (found,) = labelled({"decoder.blocks.1.cross_attention": np.ones((4, 1, 2)) / 2}, lambda path: ("c", "ab"))
    >>> found.title, found.layer
    ('decoder, layer 2, cross-attention', 2)
    """
    found = []
    for i, (path, weights) in enumerate(maps.items(), 1):
        numbered = NUMBERED.fullmatch(path)
        found.append(LabelledMap(in_words(path), int(numbered[2]) + 1 if numbered else i, weights, *axes(path)))
    return found


def in_words(path: str) -> str:
    """What pictures call a layer: blocks count from 1.

    >>> in_words("blocks.0"), in_words("encoder.blocks.1"), in_words("token_embedding")
    ('layer 1', 'encoder, layer 2', 'token_embedding')
    """
    numbered = NUMBERED.fullmatch(path)
    if not numbered:
        return path
    parts = numbered[1], f"layer {int(numbered[2]) + 1}", numbered[3]
    return ", ".join(part for part in parts if part not in (None, "model", "attention")).replace("_", "-")


def visible(symbols: Sequence[str]) -> list[str]:
    """Labels for an axis: blanks as ␣, line ends as ↵, what cannot be drawn as its number, and long ones cut off.

    >>> visible(["a", "\\n", " the", "\\x07", "-" * 70])
    ['a', '↵', '␣the', '\\\\x07', '-------------------…']
    """
    names = ["".join(map(_visible, symbol)) for symbol in symbols]
    return [name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…" for name in names]


def _visible(character: str) -> str:
    if character in VISIBLE:
        return VISIBLE[character]
    is_seen = unicodedata.category(character)[0] not in "CMZ" and has_glyph(character)  # control, accent, blank
    return character if is_seen else character.encode("unicode_escape").decode()


def draw_maps(maps: Sequence[LabelledMap], title: str = "", path: str | os.PathLike[str] | None = None) -> Any:
    """A Matplotlib figure of the weights, from 0 (white) to 1; the future, which causal attention hides, is grey.

    Rows are layers, columns heads. The panels on the left name the queries. The lowest ones name the keys; if layers have
    different keys, all panels do. Axes with more than MOST_LABELS symbols show positions. Beyond MOST_PANELS heads only the
    first layers are drawn, and the title says so. Saved to `path` if given.
    """
    most_heads = max(len(layer.weights) for layer in maps)
    heads = min(most_heads, MOST_PANELS)
    rows = maps[: MOST_PANELS // heads]
    for shown, all_of_them, what in ((len(rows), len(maps), "layers"), (heads, most_heads, "heads")):
        if shown < all_of_them:
            title = f"{title}\n(the first {shown} of {all_of_them} {what})".strip()
    size, font, margin = _measures(rows)
    same_keys = len({tuple(layer.keys) for layer in rows}) == 1
    across = max(0.3, 0.07 * max(len(text) for layer in rows for text in layer.titles()) - size)  # between panels, inches
    down, top = 0.4 if same_keys else 0.4 + margin, 0.9 if title else 0.5
    width = margin + heads * size + (heads - 1) * across + 1.2
    height = top + len(rows) * size + (len(rows) - 1) * down + margin + 0.1
    figure, panels = new_figure(len(rows), heads, width, height, layout=None, squeeze=False)
    figure.subplots_adjust(left=margin / width, right=1 - 1.2 / width, bottom=(margin + 0.1) / height,
                           top=1 - top / height, wspace=across / size, hspace=down / size)
    for i, (row, layer) in enumerate(zip(panels, rows)):
        for head, axes in enumerate(row):
            if head < len(layer.weights):
                is_lowest = not same_keys or i == len(rows) - 1 or head >= len(rows[i + 1].weights)
                image = _draw_head(axes, layer, head, font, head == 0, is_lowest)
            else:
                axes.set_axis_off()
    scale = figure.add_axes([1 - 0.9 / width, 1 - (size + 0.5 + 0.4 * bool(title)) / height, 0.15 / width, size / height])
    figure.colorbar(image, cax=scale, label="weight")
    figure.suptitle(title, y=1 - 0.1 / height, va="top", parse_math=False)
    if path is not None:
        save(figure, path, OURS, dpi=min(100, LARGEST / max(width, height)))
    return figure


def _measures(maps: Sequence[LabelledMap]) -> tuple[float, float, float]:
    """(A panel's size in inches, the labels' font size in points, their margin in inches)."""
    longest = max(max(layer.weights.shape[1:]) for layer in maps)
    size = float(np.clip(0.1 * longest, 1.8, 0.1 * MOST_LABELS))
    font = min(9.0, 0.8 * 72 * size / min(longest, MOST_LABELS))
    letters = max(len(symbol) for layer in maps for symbol in [*layer.queries, *layer.keys, "00"])
    return size, font, 0.5 + 0.65 * font * min(letters, LONGEST_NAME) / 72


def _draw_head(axes, layer: LabelledMap, head: int, font: float, names_queries: bool, names_keys: bool):
    image = axes.imshow(layer.shown()[head], cmap=sizes(), vmin=0, vmax=1, interpolation="nearest")
    axes.set_title(layer.titles()[head], fontsize=9, parse_math=False)
    axes.tick_params(labelsize=font, length=2)
    for axis, what, labels, is_named in ((axes.yaxis, "query: who looks", layer.queries, names_queries),
                                         (axes.xaxis, "key: what it looks at", layer.keys, names_keys)):
        has_room = len(labels) <= MOST_LABELS
        if not is_named:
            axis.set_ticks([])
            continue
        axis.set_label_text(what if has_room else f"{what}, by position", fontsize=8)
        if has_room:
            is_turned = axis is axes.xaxis and max(map(len, labels)) > 2
            axis.set_ticks(range(len(labels)), labels=labels, rotation=90 if is_turned else 0, parse_math=False)
    return image


def where_heads_look(layer: LabelledMap) -> list[str]:
    """For each head of a self-attention layer, the place whose mean weight exceeds an even spread's by the most.

    Places are the first symbol, and distances from the query that at least half of the queries have; a query that sees only
    itself does not count. Each place is given with its mean weight and that of an even spread.

    >>> one_back = np.array([[[1.0, 0, 0, 0], [0.9, 0.1, 0, 0], [0, 0.7, 0.3, 0], [0, 0, 0.8, 0.2]]])
    >>> where_heads_look(LabelledMap("layer 1", 1, one_back, "abcd", "abcd"))
    ['layer 1, head 1: looks most at the symbol 1 back, weight 0.80 on average (evenly spread 0.36)']
    """
    queries, keys = layer.weights.shape[1:]
    if queries != keys or queries < 2:
        return []
    first = int(layer.hides_future)
    even = np.tril(np.ones((queries, keys))) if first else np.ones((queries, keys))
    even /= even.sum(1, keepdims=True)
    places = {"the first symbol": lambda weights: weights[first:, 0],
              "itself": lambda weights: np.diagonal(weights)[first:]}
    for distance in range(1, queries // 2 + 1):
        places[f"the symbol {distance} back"] = functools.partial(np.diagonal, offset=-distance)
        if not first:
            places[f"the symbol {distance} ahead"] = functools.partial(np.diagonal, offset=distance)
    lines = []
    for title, weights in zip(layer.titles(), layer.weights):
        means = {place: (float(at(weights).mean()), float(at(even).mean())) for place, at in places.items()}
        place, (mean, share) = max(means.items(), key=lambda item: item[1][0] - item[1][1])
        lines.append(f"{title}: looks most at {place}, weight {mean:.2f} on average (evenly spread {share:.2f})")
    return lines


def save(figure: Any, path: str | os.PathLike[str], kind: str, dpi: float) -> None:
    """Write a figure in the format that the path ends with, a key of FORMATS; its metadata note its kind. The old file
    stays until the new one is complete."""
    ending = pathlib.Path(path).suffix
    _, key, _ = FORMATS[ending]
    with replacing(os.path.realpath(path)) as file:
        figure.savefig(file, format=ending[1:], dpi=dpi, metadata={key: kind})


def is_of_kind(path: pathlib.Path, kind: str) -> bool:
    """Is this file such a figure, written by `save`?"""
    begins, _, note = FORMATS[path.suffix]
    content = path.read_bytes() if path.is_file() else b""
    return content.startswith(begins) and note.format(kind).encode() in content
