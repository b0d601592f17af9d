"""Draw README's picture, and those of the guide to backpropagation, with numbers that minigrad computes:

    python docs/pictures.py            # writes study/guide/*.png
"""
import pathlib

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from PIL import Image

from minigrad.drawing import figures
from study.page.attention import DEFAULT, attention
from study.page.pages import trace_of
from study.page.shares import INITIALISATIONS, down, stack

INK, MUTED, PAPER, MASKED = "#1f2328", "#59636e", "#fbfaf7", "#e4e2dc"


def save(figure: Figure, path: pathlib.Path) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)  # a quarter of the size


# ------------------------------------------------------------------------------------------------ README: attention

# name: (symbols, below them how each is computed, a sign after each), forward and backward, from left to right
PANELS = {
    "q": (("Q", "", ""), ("dQ", "s dS K", "")),
    "k": (("K", "", "→"), ("dK", "s dSᵀ Q", "←")),
    "scores": (("S", "s Q Kᵀ", ""), ("dS", "P ∗ (dP − r)", "←")),
    "row_sum": (("", "", ""), ("r", "rowsum(dP ∗ P)", "←")),
    "weights": (("P", "softmax of each row of S", ""), ("dP", "dO Vᵀ", "")),
    "v": (("V", "", "→"), ("dV", "Pᵀ dO", "←")),
    "output": (("O", "P V", ""), ("dO", "", "")),
}

CELL, GAP, MARGIN = 0.52, 0.62, 0.35  # inches
ROWS = {"forward": 3.8, "backward": 0.5}  # where the panels begin, from the bottom


def draw_panel(figure: Figure, left: float, bottom: float, values: np.ndarray, is_seen: np.ndarray) -> None:
    """The numbers, each on the colour of its value; what is masked is grey and empty."""
    width, height = figure.get_size_inches()
    rows, columns = values.shape
    axes = figure.add_axes([left / width, bottom / height, columns * CELL / width, rows * CELL / height])
    largest = 1.3 * np.abs(values[is_seen]).max()
    axes.imshow(np.ma.array(values, mask=~is_seen), cmap=figures.signed(), vmin=-largest, vmax=largest, aspect="auto")
    for i, j in np.argwhere(is_seen):
        axes.text(j, i, f"{values[i, j]:.2f}".replace("-", "−"), ha="center", va="center", fontsize=10, color=INK)
    axes.set(xticks=np.arange(1, columns) - 0.5, yticks=np.arange(1, rows) - 0.5, xticklabels=[], yticklabels=[])
    axes.grid(color=PAPER, linewidth=1.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw_attention() -> Figure:
    """Each matrix of the page's head, with its gradient below it, and the row sums."""
    trace, T = trace_of(attention, DEFAULT), len(DEFAULT.mask)
    tensors = {name: (trace[name].value, trace[name].gradient) for name in PANELS if name != "row_sum"}
    row_sum = np.sum(np.multiply(*tensors["weights"]), axis=1, keepdims=True)
    tensors["row_sum"] = np.full_like(row_sum, np.nan), row_sum
    sizes = {name: tensors[name][0].shape[1] * CELL for name in PANELS}
    width = 2 * MARGIN + sum(sizes.values()) + (len(sizes) - 1) * GAP
    height = ROWS["forward"] + T * CELL + 0.85
    figure = Figure(figsize=(width, height), dpi=130, facecolor=PAPER)

    def write(x: float, y: float, text: str, **style) -> None:
        figure.text(x / width, y / height, text, **{"ha": "center", "va": "bottom", "color": INK} | style)

    for way, (direction, bottom) in enumerate(ROWS.items()):
        left, top = MARGIN, bottom + T * CELL
        write(MARGIN, top + 0.5, direction, ha="left", fontsize=11, color=MUTED, style="italic")
        for name, words in PANELS.items():
            (symbol, formula, sign), values, size = words[way], tensors[name][way], sizes[name]
            if symbol:
                draw_panel(figure, left, bottom, values, DEFAULT.mask if size == T * CELL else np.isfinite(values))
                write(left + size / 2, top + 0.1, symbol, fontsize=13, weight="bold")
            else:
                write(left + size / 2, bottom + T * CELL / 2, "→", va="center", fontsize=20)
            write(left + size / 2, bottom - 0.12, formula, va="top", fontsize=10, color=MUTED)
            write(left + size + GAP / 2, bottom + T * CELL / 2, sign, va="center", fontsize=20)
            left += size + GAP
    return figure


# ------------------------------------------------------------------------------------------------ the guide: softmax

def draw_softmax() -> Figure:
    """Two rows of P, of dP with their weighted means, and of dS, whose signs are those of the distances from the mean."""
    trace = trace_of(attention, DEFAULT)
    figure = Figure(figsize=(8.4, 5.6), dpi=130, facecolor=PAPER)
    panels = figure.subplots(2, 3, gridspec_kw=dict(left=0.06, right=0.99, top=0.93, bottom=0.03, wspace=0.1, hspace=0.12))
    for axes, i in zip(panels, (1, 3)):
        P, dP, dS = (array[i, :i + 1] for array in (
            trace["weights"].value, trace["weights"].gradient, trace["scores"].gradient))
        mean = P @ dP
        for one, values, limits in zip(axes, (P, dP, dS), ((-0.25, 1.0), (-2.9, 3.6), (-0.9, 1.15))):
            bars(one, values, limits)
        axes[0].text(-0.95, 0, f"row {i}", rotation=90, va="bottom", fontsize=11, color=INK)
        axes[1].axhline(mean, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
        side, place = (-0.1, "top") if dP[0] > mean else (0.1, "bottom")
        axes[1].text(-0.58, mean + side, f"r = {mean:.3f}".replace("-", "−"), va=place, fontsize=9, color=INK)
        for j, value in enumerate(dP):
            axes[1].annotate("", (j + 0.41, value), (j + 0.41, mean), arrowprops=dict(arrowstyle="->", color=INK))
    for axes, title in zip(panels[0], ("P", "dP, and its mean r, weighted by P", "dS = P ∗ (dP − r)")):
        axes.set_title(title, fontsize=11, color=INK)
    return figure


def bars(axes: Axes, values: np.ndarray, limits: tuple[float, float]) -> None:
    """A bar for each value, in the colour of its sign."""
    colours = np.array([figures.NEGATIVE, figures.POSITIVE]) / 255
    axes.bar(range(len(values)), values, width=0.66, color=colours[(values > 0).astype(int)])
    axes.set(ylim=limits, xlim=(-0.6, 3.6), yticks=[], xticks=[], facecolor=PAPER)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.spines[:].set_visible(False)
    for i, value in enumerate(values):
        text = f"{value:.3f}".rstrip("0").rstrip(".").replace("-", "−")
        axes.annotate(text, (i, value), (0, 2 if value > 0 else -2), textcoords="offset points", ha="center",
                      va="bottom" if value > 0 else "top", fontsize=10, color=INK)
        axes.text(i, limits[0], str(i), ha="center", va="bottom", fontsize=10, color=MUTED)


# ------------------------------------------------------------------------------------------------ the guide: tiles

TILES, ROW, COLUMN = 6, 4, 1  # of scores, and those that are lit
LIT, INPUT = "#efe3c2", "#e9e6de"


def draw_tiles() -> Figure:
    """The scores in tiles: a row of them makes O and dQ, a column dK and dV; tiles above the diagonal are skipped."""
    figure = Figure(figsize=(7.6, 5.0), dpi=130, facecolor=PAPER)
    axes = figure.add_axes([0, 0, 1, 1])
    axes.set(xlim=(-2.6, 11.4), ylim=(7.8, -1.4))
    axes.axis("off")
    for i, j in np.ndindex(TILES, TILES):
        lit = (i == ROW and j <= ROW) or (j == COLUMN and i >= COLUMN)
        colour = MASKED if j > i else LIT if lit else "white"
        axes.add_patch(Rectangle((j, i), 1, 1, facecolor=colour, edgecolor=MUTED, linewidth=0.8))
        if i == j:  # on the diagonal, half of it is masked
            axes.add_patch(Polygon([(j, i), (j + 1, i), (j + 1, i + 1)], facecolor=MASKED, alpha=0.9))
    axes.add_patch(Rectangle((COLUMN, ROW), 1, 1, fill=False, edgecolor=INK, linewidth=2.5))
    inputs = ((-1.0, ROW), (0.7, 1), "Q, dO,\nlse, r"), ((COLUMN, -1.0), (1, 0.7), "K, V")
    for (x, y), (width, height), text in inputs:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=INPUT, edgecolor=INK, linewidth=1.2))
        axes.text(x - 0.15 if width < 1 else x + 1.15, y + height / 2, text, ha="right" if width < 1 else "left",
                  va="center", fontsize=11, color=INK)
    arrow = dict(arrowstyle="-|>", color=INK, linewidth=1.6)
    axes.annotate("", (TILES + 0.9, ROW + 0.5), (ROW + 1.05, ROW + 0.5), arrowprops=arrow)
    axes.annotate("", (COLUMN + 0.5, TILES + 0.9), (COLUMN + 0.5, TILES + 0.05), arrowprops=arrow)
    large = dict(va="center", fontsize=11, color=INK)
    axes.text(TILES + 1.05, ROW + 0.5, "a row of tiles\nadds up to O, lse\nand to dQ", **large)
    axes.text(COLUMN + 0.8, TILES + 0.6, "a column of tiles adds up to dK, dV", **large)
    axes.text(TILES + 0.3, 1.5, "masked: skipped", va="center", fontsize=11, color=MUTED)
    axes.annotate("P, dP, dS of one tile:\ncomputed, used, forgotten", (COLUMN + 1.0, ROW + 0.2), (TILES + 0.6, 2.9),
                  arrowprops=dict(arrowstyle="-", color=INK, linewidth=1.0), **large)
    axes.text(-0.2, 0.1, "queries ↓", ha="right", va="top", fontsize=10, color=MUTED)
    axes.text(0.0, -0.15, "keys →", ha="right", va="bottom", fontsize=10, color=MUTED)
    return figure


# ------------------------------------------------------------------------------------------------ the guide: shares

DEPTHS, SEEDS = (1, 2, 4, 8, 12, 16, 20, 24), range(5)
PLACED = {"pre": figures.CURVES[2], "post": figures.CURVES[4]}


def draw_shares_over_depth() -> Figure:
    """How a gradient of length 1 comes down a stack of blocks at initialisation: as a whole, along the residual connections
    alone, and the share of these in each of 24 blocks; medians and ranges of five seeds."""
    figure = Figure(figsize=(11.5, 3.9), dpi=130, facecolor=PAPER)
    panels = figure.subplots(1, 3, gridspec_kw=dict(left=0.055, right=0.985, top=0.88, bottom=0.27, wspace=0.22))
    for name, style in zip(INITIALISATIONS, ("-", (0, (2, 1.5)))):
        for placement, colour in PLACED.items():
            runs = [[down(*stack(placement, depth, seed, name)) for depth in DEPTHS] for seed in SEEDS]
            lines = [(DEPTHS, [[run[i] for run in of_seed] for of_seed in runs]) for i in (0, 1)]
            lines.append((range(1, DEPTHS[-1] + 1), [of_seed[-1][2] for of_seed in runs]))
            for axes, (at, found) in zip(panels, lines):
                axes.plot(at, np.median(found, axis=0), color=colour, linestyle=style, label=f"{placement}-norm, {name}")
                axes.fill_between(at, np.min(found, axis=0), np.max(found, axis=0), color=colour, alpha=0.15, linewidth=0)
    titles = ("|dx|, of |dy| = 1", "|dx| along residual connections alone", "their share of dx, block by block")
    for axes, title, below in zip(panels, titles, ("blocks", "blocks", "block of 24, from the input")):
        axes.set_title(title, fontsize=11, color=INK)
        axes.set_xlabel(below, color=MUTED)
        axes.set(facecolor=PAPER, xticks=(1, 4, 8, 12, 16, 20, 24))
        axes.grid(color=MASKED)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[:2]:
        axes.set(yscale="log", ylim=(2e-6, 100))
    panels[1].text(24, 1.5, "pre-norm: 1 with both", ha="right", color=INK)
    panels[2].set(ylim=(0, 1.04), yticks=(0, 0.5, 1), yticklabels=("0", "50%", "100%"))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=4, frameon=False, labelcolor=INK)
    return figure


PICTURES = {
    "attention.png": draw_attention,
    "softmax.png": draw_softmax,
    "tiles.png": draw_tiles,
    "shares_over_depth.png": draw_shares_over_depth,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        save(draw(), pathlib.Path(__file__).parents[1] / "study/guide" / name)
