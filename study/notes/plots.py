"""Pictures for the claims of the lecture notes, for `minigrad notes --plot`."""
import math
import pathlib
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import minigrad as mg
import nn
from minigrad import Tensor
from minigrad.drawing.figures import new_figure
from minigrad.drawing.palette import CURVES, MARKERS, signed
from models.tasks import TASKS
from models.transformer import MLP, PLACEMENTS, Block, TransformerConfig
from nn.position import sinusoidal, sine_only
from study.notes import helpers, training

SEEDS = range(5)


def finish(axes, legend: dict | None = None, **settings) -> None:
    """Settings, a light grid, and a legend unless it is None."""
    axes.set(**settings)
    axes.grid(alpha=0.3)
    if legend is not None:
        axes.legend(**legend)


def line_with_spread(axes, x, values: np.ndarray, label: str, number: int | None = None) -> None:
    """A line through the medians of values (seeds, len(x)), and a band from the smallest to the largest."""
    number = len(axes.lines) if number is None else number
    axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=CURVES[number], alpha=0.2, linewidth=0)
    axes.plot(x, np.median(values, axis=0), color=CURVES[number], marker=MARKERS[number], markersize=5,
              markevery=max(1, len(x) // 12), label=label)


def one_by_one(panels: Iterable, x, curves: dict[str, np.ndarray]) -> None:
    """A panel for each curve, {label: values (seeds, len(x))}, with the medians of the others in grey."""
    for number, (axes, (label, values)) in enumerate(zip(panels, curves.items())):
        for other in curves.values():
            axes.plot(x, np.median(other, axis=0), color="0.8", linewidth=1)
        line_with_spread(axes, x, values, label, number)


# depth

DEPTHS = 1, 2, 4, 8, 12, 16, 20, 24


def spread_and_gradient(placement: str, seed: int) -> tuple[list[float], list[float]]:
    """For random blocks, at each of DEPTHS: how much tokens differ, |x - mean token| / |x|, and |u J| for a random u of
    length 1 and the Jacobian J of all blocks so far."""
    generator = np.random.default_rng(seed)
    mg.manual_seed(seed)
    config = TransformerConfig(context=16, layers=max(DEPTHS), heads=4, width=32, placement=placement, dtype="float64")
    tokens = mg.tensor(generator.standard_normal((1, config.context, config.width)), requires_grad=True)
    direction = generator.standard_normal(tokens.shape)
    direction = mg.tensor(direction / np.linalg.norm(direction))
    x, spreads, gradients = tokens, [], []
    for depth in range(1, config.layers + 1):
        block = Block(config, is_causal=False).double()
        for parameter in block.parameters():
            if parameter.ndim == 2:  # so that products neither grow nor shrink
                nn.init.normal_(parameter, std=1 / math.sqrt(parameter.shape[1]))
        x = block(x)
        if depth in DEPTHS:
            (gradient,) = mg.grad(x, tokens, direction, retain_graph=True)
            spreads.append(np.linalg.norm(x.array - x.array.mean(axis=1, keepdims=True)) / np.linalg.norm(x.array))
            gradients.append(np.linalg.norm(gradient.array))
    return spreads, gradients


def depth():
    """How much tokens still differ after a number of random blocks, and the norm at the input of a gradient of norm 1
    (T = 16, D = 32, median and range of 5 seeds), for every placement of norms and residual connections. With neither
    ("none"), all tokens are the same after 4 blocks."""
    measured = {placement: np.array([spread_and_gradient(placement, seed) for seed in SEEDS]) for placement in PLACEMENTS}
    figure, panels = new_figure(2, len(measured), 1.5 * len(measured), 4.5, sharex=True, sharey="row")
    for i, row in enumerate(panels):
        one_by_one(row, DEPTHS, {placement: values[:, i] for placement, values in measured.items()})
        for axes in row:
            finish(axes, yscale="log", xticks=DEPTHS[3::2])
    for axes, placement in zip(panels[0], measured):
        axes.set_title(placement.replace("_", " ").replace(" only", "\nonly"), fontsize=10)
    panels[0, 0].set(ylabel="how much tokens differ\n|x - mean token| / |x|", ylim=(1e-4, 2))
    panels[1, 0].set(ylabel="gradient at the input\n|u J|, |u| = 1")
    figure.supxlabel("blocks (grey: the other placements)", fontsize=10)
    return figure


# distance

def gradient_by_distance(make: Callable[[], Callable[[Tensor], Tensor]], seed: int, T: int = 64, D: int = 32) -> np.ndarray:
    """(T,): the norm of the gradient of a layer's last output for the input that is 0, 1, ... steps before it."""
    mg.manual_seed(seed)
    layer, generator = make(), np.random.default_rng(seed)
    x = mg.tensor(generator.standard_normal((1, T, D)), requires_grad=True)
    direction = generator.standard_normal(D)
    (gradient,) = mg.grad(layer(x)[0, -1], x, mg.tensor(direction / np.linalg.norm(direction)))
    return np.linalg.norm(gradient.array[0, ::-1], axis=1)


def make_rnn(gain: float = 1.0, D: int = 32) -> Callable[[Tensor], Tensor]:
    rnn = nn.RNN(D, D, batch_first=True).double()
    rnn.weight_hh_l0.data *= gain
    return lambda x: rnn(x)[0]


def distance():
    """How much an input matters for the last output, by distance. In a recurrent network each step on the way multiplies
    the gradient by a Jacobian, and it vanishes with the distance; attention has a path of one step to every input, and
    the gradient is as large at any distance. The number of tokens determines how large: before training, all T weights are
    near 1 / T (dotted), and two random matrices, of values and of the output, shrink the gradient to about a third
    (T = 64, D = 32, median and range of 5 seeds)."""
    layers = {
        "RNN": make_rnn,
        "RNN, $W_{hh}$ of spectral radius 1": lambda: make_rnn(math.sqrt(3)),
        "attention": lambda: nn.Attention(32, causal="mask").double(),
    }
    figure, axes = new_figure(1, 1, 8, 4.5)
    for label, make in layers.items():
        measured = np.array([gradient_by_distance(make, seed) for seed in SEEDS])
        line_with_spread(axes, np.arange(measured.shape[1]), measured, label)
    axes.axhline(1 / measured.shape[1], color="0.5", linestyle=":", label="1 / T")
    finish(axes, {}, yscale="log", xlabel="steps from the input to the last output", ylabel="norm of the gradient")
    return figure


# lengths

ATTEMPTS = {  # {label: (model, positions, steps, learning rate)}
    "the last state\n(rnn)": ("rnn", "learned", 3000, 5e-3),
    "all states\n(rnn-attention)": ("rnn-attention", "learned", 400, 5e-3),
    "one transformer for both\n(causal)": ("causal", "learned", 1200, 2e-3),
    "encoder-decoder,\nlearned positions": ("encoder-decoder", "learned", 600, 2e-3),
    "encoder-decoder,\nrotary positions": ("encoder-decoder", "rotary", 1500, 4e-3),
}


def lengths():
    """Writing letters backwards: the fraction of answers that are completely right, for historically successive models
    (width 48, batches of 32 with 3 to 8 letters, after 3000, 400, 1200, 600 and 1500 steps, when they have learned it;
    median and range of 5 seeds). The last state does not hold more than 8 letters. Transformers with learned positions
    fall to 0 there, as the vectors of those positions were never trained; nor has any answer in training ended after 2
    letters. With rotary positions, which need no table, the same encoder-decoder learns more slowly, but still works for
    a few more letters."""
    task, tested = TASKS["reverse"], range(2, 12)
    measured = {}
    for label, (name, positions, steps, lr) in ATTEMPTS.items():
        config = TransformerConfig(context=32, layers=2, heads=4, width=48, positions=positions)
        right = []
        for seed in SEEDS:
            model = training.trained(task, name, config, steps=steps, lr=lr, batch_size=32, seed=seed)
            right.append([task.accuracy(model, count=200, length=length) for length in tested])
        measured[label] = np.array(right)
    figure, panels = new_figure(1, len(measured), 10.5, 3, sharex=True, sharey=True)
    one_by_one(panels, tested, measured)
    for axes, label in zip(panels, measured):
        axes.axvspan(*task.lengths, color="0.94", zorder=0)
        axes.set_title(label, fontsize=10)
        finish(axes, xticks=tested[::2], ylim=(-0.03, 1.03))
    panels[0].set_ylabel("right answers")
    figure.supxlabel("letters (light band: lengths in training; grey: the other models)", fontsize=10)
    return figure


# saturation

def softmax_jacobians(p: np.ndarray) -> np.ndarray:
    """dp_i / ds_j = p_i ([i = j] - p_j) of weights p (rows, n) for their scores, (rows, n, n)."""
    return p[:, :, None] * (np.eye(p.shape[1]) - p[:, None])


def saturation_of(scale: str, d_k: int, seed: int, keys: int = 16, queries: int = 100) -> tuple[float, float]:
    """For attention to random keys, averaged over queries: the largest weight, and the norm of softmax's Jacobian."""
    generator = np.random.default_rng([seed, d_k])
    attention = nn.Attention(d_k, query_key="none", value=False, output_projection="none", scale=scale)
    q, k = (mg.tensor(generator.standard_normal((1, count, d_k))) for count in (queries, keys))
    _, weights = attention(q, k, need_weights=True)
    p = weights.array[0, 0]
    return float(p.max(axis=1).mean()), float(np.linalg.norm(softmax_jacobians(p), axis=(1, 2)).mean())


def saturation():
    """Scores q . k of random vectors have a standard deviation of sqrt(d_k). Without the scale, softmax approaches a choice
    of one key as d_k grows, and less and less of the gradient passes through it: the norm of its Jacobian is 0.11 at
    d_k = 256 and 0.04 at 1024; with the scale it is 0.30 at any d_k (16 keys, median and range of 5 seeds)."""
    sizes = [1, 4, 16, 64, 256, 1024]
    figure, panels = new_figure(1, 2, 10, 4)
    for scale, label in (("none", r"$q \cdot k$"), ("d_k", r"$q \cdot k / \sqrt{d_k}$")):
        measured = np.array([[saturation_of(scale, size, seed) for size in sizes] for seed in SEEDS])
        for axes, values in zip(panels, np.moveaxis(measured, 2, 0)):
            line_with_spread(axes, sizes, values, label)
    for axes, title in zip(panels, ("largest of 16 weights", "norm of the softmax's Jacobian")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, sizes)
        finish(axes, {}, xlabel="$d_k$", title=title, ylim=(0, None))
    return figure


# positions

def positions(T: int = 64, D: int = 16, k: int = 5):
    """Position encodings with sines and cosines (top) and with sines only (bottom). With both, the scalar product of two
    positions depends only on their distance, and one rotation shifts all positions by 5; without cosines neither holds
    (entries beyond 1 have the colour of 1)."""
    figure, panels = new_figure(2, 3, 12, 7)
    for row, (name, encoding) in zip(panels, (("sinusoidal", sinusoidal), ("sine only", sine_only))):
        table = encoding(T, D)
        M, error = helpers.shift_map(encoding(10_000, D), k)
        gram = table @ table.T
        for axes, values, limit, title, labels in zip(
            row, (table.T, gram, M.T), (1, np.abs(gram).max(), 1),
            (f"{name}: encoding", f"{name}: scalar products", f"{name}: shift by {k}, error {error:.2g}"),
            (("position", "feature"), ("position", "position"), ("feature at t", f"feature at t + {k}")),
        ):
            image = axes.imshow(values, cmap=signed(), vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest")
            axes.set_title(title, fontsize=10)
            axes.set(xlabel=labels[0], ylabel=labels[1])
            figure.colorbar(image, ax=axes)
    return figure


# cost

def make_layers(D: int) -> dict[str, tuple[nn.Module, Callable[[int, int], int]]]:
    """{name: (a layer of width D, the multiply-adds of T tokens in closed form)}

    Attention has projections to queries, keys, values and the output, and then scores and weighted sums.
    """
    return {"attention": (nn.MultiHeadAttention(D, num_heads=4), lambda T, D: 4 * T * D * D + 2 * T * T * D),
            "MLP": (MLP(TransformerConfig(width=D)), lambda T, D: 8 * T * D * D)}


def counted_and_seconds(layer: nn.Module, T: int, D: int, repeats: int = 15) -> tuple[int, float]:
    """(multiply-adds, the shortest of several times) of a forward."""
    x = mg.randn(1, T, D)
    with mg.no_grad():
        with mg.count_flops() as count:
            layer(x)
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            layer(x)
            times.append(time.perf_counter() - started)
    return count.total, min(times)


def cost():
    """Top: multiply-adds of a forward. Those counted by `count_flops` (dots) lie on the closed forms, 4 T D^2 + 2 T^2 D for
    attention and 8 T D^2 for an MLP. Bottom: the shortest measured time, and the same forms fitted to the three largest
    sizes; small ones cost more than their arithmetic."""
    figure, panels = new_figure(2, 2, 10, 8)
    sweeps = (("T", "tokens T (D = 64)", [(T, 64) for T in (32, 64, 128, 256, 512, 1024, 2048)]),
              ("D", "width D (T = 64)", [(64, D) for D in (16, 32, 64, 128, 256, 512, 1024)]))
    for (above, below), (letter, label, sizes) in zip(panels.T, sweeps):
        x = [size["TD".index(letter)] for size in sizes]
        for color, marker, name in zip(CURVES, MARKERS, ("attention", "MLP")):
            layers = [make_layers(D)[name] for _, D in sizes]
            counted, seconds = zip(*(counted_and_seconds(layer, *size) for size, (layer, _) in zip(sizes, layers)))
            expected = [closed_form(*size) for size, (_, closed_form) in zip(sizes, layers)]
            above.plot(x, expected, color=color, label=f"{name}, closed form")
            above.plot(x, counted, marker, color=color, label=f"{name}, counted")
            milliseconds, expected = 1e3 * np.array(seconds), np.array(expected)
            each = np.median((milliseconds / expected)[-3:])
            below.plot(x, each * expected, color=color, label=f"{name}, closed form, fitted")
            below.plot(x, milliseconds, marker, color=color, label=f"{name}, measured")
        for axes, what in ((above, "multiply-adds"), (below, "milliseconds")):
            axes.set_xscale("log", base=2)
            axes.set_xticks(x, x)
            finish(axes, {}, yscale="log", xlabel=label, ylabel=what)
    return figure


PICTURES = {  # {name: (function that draws it, its rows)}
    "depth": (depth, ("R0", "R1", "R2", "R3", "R4", "R5", "R6", "C5", "C6")),
    "distance": (distance, ("G8", "C7")),
    "lengths": (lengths, ("G3", "G6", "G7")),
    "saturation": (saturation, ("A15", "A16", "A17")),
    "positions": (positions, ("P4", "P5")),
    "cost": (cost, ("C1", "C2", "C3")),
}


def about(rows: Iterable[str]) -> list[str]:
    """The names of the pictures of these rows; ValueError if there are none."""
    names = [name for name, (_, its_rows) in PICTURES.items() if {*rows} & {*its_rows}]
    if not names:
        having = ", ".join(dict.fromkeys(row for _, its_rows in PICTURES.values() for row in its_rows))
        raise ValueError(f"there is no picture of {', '.join(rows)}; there are pictures of {having}")
    return names


def where(row: str, folder: pathlib.Path) -> str:
    """Where the pictures of a row are, or how to get them; "" if it has none."""
    names = [name for name, (_, its_rows) in PICTURES.items() if row in its_rows]
    missing = [name for name in names if not file_of(name, folder).exists()]
    if missing:
        return f"`minigrad notes --row {row} --plot` draws {' and '.join(missing)}"
    return ", ".join(str(file_of(name, folder)) for name in names)


def draw(names: Iterable[str], folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Draw pictures into a folder; the path of each."""
    for name in names:
        PICTURES[name][0]().savefig(file_of(name, folder), dpi=110)
        yield file_of(name, folder)


def file_of(name: str, folder: pathlib.Path) -> pathlib.Path:
    return folder / f"{name}.png"


def legends() -> dict[str, tuple[str, tuple[str, ...]]]:
    """{file name: (caption, rows)}"""
    return {f"{name}.png": (" ".join(picture.__doc__.split()), rows) for name, (picture, rows) in PICTURES.items()}
