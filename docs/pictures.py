"""Draw README's picture, and those of the guide to backpropagation, with numbers that minigrad computes:

    python docs/pictures.py            # writes docs/attention.png and docs/backprop/*.png
"""
import math
import pathlib

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle
from PIL import Image

import minigrad as mg
from study.page.shares import INITIALISATIONS, down, stack

INK, MUTED, PAPER, MASKED = "#1f2328", "#59636e", "#fbfaf7", "#e4e2dc"
VALUE, GRADIENT = "#0a5fb4", "#b3400a"  # what goes forward, and what goes backward


def save(figure: Figure, path: pathlib.Path) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)  # a quarter of the size


# ------------------------------------------------------------------------------------------------ README: attention

T, D = 4, 2
Q = [[1.0, 0.5], [-0.5, 1.5], [2.0, -1.0], [0.5, 1.0]]
K = [[1.0, -0.5], [0.5, 1.0], [-1.0, 1.5], [1.5, 0.5]]
V = [[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0], [2.0, -1.0]]
DOUT = [[0.5, 0.0], [-0.5, 1.0], [1.0, 0.5], [1.0, -1.0]]
SEEN = np.tri(T, dtype=bool)  # token i attends to the tokens up to i

# name: (how it is computed, how its gradient is), from left to right; a sign after it, forward and backward
PANELS = {
    "q": ("", "dscores k / √2", "", ""),
    "k": ("", "dscoresᵀ q / √2", "→", "←"),
    "scores": ("q kᵀ / √2", "weights ∘ (dweights −\nrow sums of dweights ∘ weights)", "→", "←"),
    "weights": ("softmax of each row of scores", "dout vᵀ", "", ""),
    "v": ("", "weightsᵀ dout", "→", "←"),
    "out": ("weights v", "", "", ""),
}

CELL, GAP, MARGIN = 0.52, 0.62, 0.35  # inches
ROWS = {"forward": 4.2, "backward": 0.75}  # where the panels begin, from the bottom


def attention() -> dict[str, mg.Tensor]:
    """Every tensor of the picture, with its gradient."""
    q, k, v = (mg.tensor(rows, requires_grad=True) for rows in (Q, K, V))
    scores = q @ k.T / math.sqrt(D)
    weights = mg.where(mg.tensor(SEEN), scores, -math.inf).softmax(-1)
    out = weights @ v
    tensors = {"q": q, "k": k, "scores": scores, "weights": weights, "v": v, "out": out}
    for x in (scores, weights, out):
        x.retain_grad()
    out.backward(mg.tensor(DOUT))
    return tensors


def draw_panel(figure: Figure, left: float, bottom: float, values: np.ndarray, is_seen: np.ndarray) -> None:
    """The numbers, each on the colour of its value; what is masked is grey and empty."""
    width, height = figure.get_size_inches()
    rows, columns = values.shape
    axes = figure.add_axes([left / width, bottom / height, columns * CELL / width, rows * CELL / height])
    colours, largest = matplotlib.colormaps["RdBu_r"].with_extremes(bad=MASKED), 1.8 * np.abs(values[is_seen]).max()
    axes.imshow(np.ma.array(values, mask=~is_seen), cmap=colours, vmin=-largest, vmax=largest, aspect="auto")
    for i, j in np.argwhere(is_seen):
        axes.text(j, i, f"{values[i, j]:.2f}".replace("-", "−"), ha="center", va="center", fontsize=10, color=INK)
    axes.set(xticks=np.arange(1, columns) - 0.5, yticks=np.arange(1, rows) - 0.5, xticklabels=[], yticklabels=[])
    axes.grid(color=PAPER, linewidth=1.5)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def draw_attention() -> Figure:
    tensors = attention()
    width = 2 * MARGIN + sum(x.shape[1] for x in tensors.values()) * CELL + (len(tensors) - 1) * GAP
    height = ROWS["forward"] + T * CELL + 0.85
    figure = Figure(figsize=(width, height), dpi=130, facecolor=PAPER)

    def write(x: float, y: float, text: str, **style) -> None:
        figure.text(x / width, y / height, text, **{"ha": "center", "va": "bottom", "color": INK} | style)

    for direction, bottom in ROWS.items():
        is_forward, left, top = direction == "forward", MARGIN, bottom + T * CELL
        write(MARGIN, top + 0.55, direction, ha="left", fontsize=11, color=MUTED, style="italic")
        for name, (forward, backward, sign, sign_back) in PANELS.items():
            x, formula = tensors[name], forward if is_forward else backward
            is_seen = SEEN if name in ("scores", "weights") else np.ones(x.shape, bool)
            draw_panel(figure, left, bottom, (x.detach() if is_forward else x.grad).numpy(), is_seen)
            size = x.shape[1] * CELL
            write(left + size / 2, top + 0.1, name if is_forward else f"d{name}", fontsize=13, weight="bold")
            write(left + size / 2, bottom - 0.12, formula, va="top", fontsize=9, color=MUTED, linespacing=1.3)
            write(left + size + GAP / 2, bottom + T * CELL / 2, sign if is_forward else sign_back, va="center", fontsize=20)
            left += size + GAP
    return figure


# ------------------------------------------------------------------------------------------------ the guide: softmax

X, DY = [1.0, 2.0, 0.0], [3.0, 1.0, -1.0]  # the guide's numbers


def draw_softmax() -> Figure:
    """y, dy with its weighted mean, and dx, whose signs are those of the distances from the mean."""
    x = mg.tensor(X, requires_grad=True)
    y = x.softmax(0)
    y.backward(mg.tensor(DY))
    mean = float((y.detach() * mg.tensor(DY)).sum())
    figure = Figure(figsize=(8.4, 2.9), dpi=130, facecolor=PAPER)
    panels = figure.subplots(1, 3, gridspec_kw=dict(left=0.02, right=0.98, top=0.82, bottom=0.14, wspace=0.12))
    bars(panels[0], y.tolist(), VALUE, "y = softmax(x)", (-0.25, 0.85))
    bars(panels[1], DY, GRADIENT, "dy, and its mean with the weights y", (-1.9, 3.9))
    bars(panels[2], x.grad.tolist(), GRADIENT, "dx = y * (dy − mean)", (-0.36, 0.56))
    panels[1].axhline(mean, color=INK, linewidth=1.2, linestyle=(0, (4, 3)))
    panels[1].text(2.45, mean + 0.1, f"mean {mean:.3f}", ha="right", va="bottom", fontsize=10, color=INK)
    for i, value in enumerate(DY):
        panels[1].annotate("", (i + 0.41, value), (i + 0.41, mean), arrowprops=dict(arrowstyle="->", color=INK))
    return figure


def bars(axes: Axes, values: list[float], colour: str, title: str, limits: tuple[float, float]) -> None:
    axes.bar(range(len(values)), values, width=0.66, color=colour)
    axes.set(ylim=limits, xlim=(-0.6, 2.6), yticks=[], xticks=[], facecolor=PAPER)
    axes.set_title(title, fontsize=11, color=INK)
    axes.axhline(0, color=MUTED, linewidth=0.8)
    axes.spines[:].set_visible(False)
    for i, value in enumerate(values):
        text = f"{value:.3f}".rstrip("0").rstrip(".").replace("-", "−")
        is_roomy = abs(value) > 0.12 * (limits[1] - limits[0])
        axes.text(i, value / 2 if is_roomy else value, text, ha="center", va="center" if is_roomy else "bottom",
                  fontsize=10, color="white" if is_roomy else INK)
        axes.text(i, limits[0], str(i), ha="center", va="top", fontsize=10, color=MUTED)


# ------------------------------------------------------------------------------------------------ the guide: attention

PLACES = {"q": (0.0, 1.3), "k": (0.0, 0.3), "S": (2.6, 0.8), "P": (5.2, 0.8), "v": (5.2, -0.3), "O": (7.8, 0.8)}
FLOW = {  # from: to
    "q": "S", "k": "S", "S": "P", "P": "O", "v": "O",
}
SAYS = {  # what stands below a box: forward, backward
    "q": ("", "dS @ k * scale"), "k": ("", "dSᵀ @ q * scale"), "S": ("q @ kᵀ * scale", "P * (dP − rowsum(dP * P))"),
    "P": ("softmax(S)", "dO @ vᵀ"), "v": ("", "Pᵀ @ dO"), "O": ("P @ v", "upstream"),
}


def draw_flow() -> Figure:
    """What is computed from what, forward, and below it, with all arrows turned round, backward."""
    figure = Figure(figsize=(8.4, 5.0), dpi=130, facecolor=PAPER)
    axes = figure.add_axes([0, 0, 1, 1])
    axes.set(xlim=(-1.1, 9.0), ylim=(-3.95, 2.05))
    axes.axis("off")
    for is_forward, shift, colour in ((True, 0.0, VALUE), (False, -2.9, GRADIENT)):
        axes.text(-0.95, 1.8 + shift, "forward" if is_forward else "backward", fontsize=11, color=MUTED, style="italic")
        for name, (x, y) in PLACES.items():
            box(axes, x, y + shift, name if is_forward else f"d{name}", SAYS[name][not is_forward], colour)
        for start, end in FLOW.items():
            (x, y), (to_x, to_y) = PLACES[start], PLACES[end]
            tail, head = (x + 0.42, y + shift), (to_x - 0.42, to_y + shift)
            axes.annotate("", *((head, tail) if is_forward else (tail, head)),
                          arrowprops=dict(arrowstyle="-|>", color=colour, linewidth=1.4, shrinkA=2, shrinkB=2))
    return figure


def box(axes: Axes, x: float, y: float, name: str, formula: str, colour: str) -> None:
    axes.add_patch(FancyBboxPatch((x - 0.36, y - 0.2), 0.72, 0.4, boxstyle="round,pad=0.04", facecolor="white",
                                  edgecolor=colour, linewidth=1.4))
    axes.text(x, y - 0.02, name, ha="center", va="center", fontsize=13, weight="bold", color=INK)
    axes.text(x, y - 0.31, formula, ha="center", va="top", fontsize=9, color=MUTED)


# ------------------------------------------------------------------------------------------------ the guide: tiles

TILES, ROW, COLUMN = 6, 4, 1  # of scores, and those that are lit


def draw_tiles() -> Figure:
    """The scores in tiles: a row of them makes O and dq, a column dk and dv; tiles above the diagonal are skipped."""
    figure = Figure(figsize=(7.6, 5.0), dpi=130, facecolor=PAPER)
    axes = figure.add_axes([0, 0, 1, 1])
    axes.set(xlim=(-2.6, 11.4), ylim=(7.8, -1.4))
    axes.axis("off")
    for i, j in np.ndindex(TILES, TILES):
        lit = (i == ROW and j <= ROW) or (j == COLUMN and i >= COLUMN)
        colour = MASKED if j > i else "#f3d9c9" if lit else "white"
        axes.add_patch(Rectangle((j, i), 1, 1, facecolor=colour, edgecolor=MUTED, linewidth=0.8))
        if i == j:  # on the diagonal, half of it is masked
            axes.add_patch(Polygon([(j, i), (j + 1, i), (j + 1, i + 1)], facecolor=MASKED, alpha=0.9))
    axes.add_patch(Rectangle((COLUMN, ROW), 1, 1, fill=False, edgecolor=GRADIENT, linewidth=2.5))
    for (x, y), (width, height), text in (((-1.0, ROW), (0.7, 1), "q, dO,\nlse, D"), ((COLUMN, -1.0), (1, 0.7), "k, v")):
        axes.add_patch(Rectangle((x, y), width, height, facecolor="#cfe0f3", edgecolor=VALUE, linewidth=1.2))
        axes.text(x - 0.15 if width < 1 else x + 1.15, y + height / 2, text, ha="right" if width < 1 else "left",
                  va="center", fontsize=11, color=INK)
    arrow = dict(arrowstyle="-|>", color=GRADIENT, linewidth=1.6)
    axes.annotate("", (TILES + 0.9, ROW + 0.5), (ROW + 1.05, ROW + 0.5), arrowprops=arrow)
    axes.annotate("", (COLUMN + 0.5, TILES + 0.9), (COLUMN + 0.5, TILES + 0.05), arrowprops=arrow)
    axes.text(TILES + 1.05, ROW + 0.5, "a row of tiles\nadds up to O, lse\nand to dq", va="center", fontsize=11, color=INK)
    axes.text(COLUMN + 0.8, TILES + 0.6, "a column of tiles adds up to dk, dv", va="center", fontsize=11, color=INK)
    axes.text(TILES + 0.3, 1.5, "masked: skipped", va="center", fontsize=11, color=MUTED)
    axes.annotate("P, dP, dS of one tile:\ncomputed, used, forgotten", (COLUMN + 1.0, ROW + 0.2), (TILES + 0.6, 2.9),
                  va="center", fontsize=11, color=INK, arrowprops=dict(arrowstyle="-", color=GRADIENT, linewidth=1.0))
    axes.text(-0.2, 0.1, "queries ↓", ha="right", va="top", fontsize=10, color=MUTED)
    axes.text(0.0, -0.15, "keys →", ha="right", va="bottom", fontsize=10, color=MUTED)
    return figure


# ------------------------------------------------------------------------------------------------ the guide: shares

DEPTHS, SEEDS = (1, 2, 4, 8, 12, 16, 20, 24), range(5)
PLACED = {"pre": "#2f6f4f", "post": "#7a4a9e"}


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
    "backprop/softmax.png": draw_softmax,
    "backprop/flow.png": draw_flow,
    "backprop/tiles.png": draw_tiles,
    "study/shares_over_depth.png": draw_shares_over_depth,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        save(draw(), pathlib.Path(__file__).parent / name)
