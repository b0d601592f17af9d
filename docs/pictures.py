"""Draw README's picture, attention of one head forward and backward, with numbers that minigrad computes:

    python docs/pictures.py            # writes docs/attention.png
"""
import math
import pathlib

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

import minigrad as mg

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
INK, MUTED, PAPER, MASKED = "#1f2328", "#59636e", "#fbfaf7", "#e4e2dc"


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


def draw(path: pathlib.Path) -> None:
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
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)  # a quarter of the size


if __name__ == "__main__":
    draw(pathlib.Path(__file__).parent / "attention.png")
