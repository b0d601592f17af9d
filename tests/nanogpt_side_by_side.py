"""A model.py in nanoGPT's style, here and in PyTorch, with the same weights: loss, gradients, and 50 steps of training.

    python tests/nanogpt_side_by_side.py MODEL.PY [--steps 50] [--layers 4 --heads 4 --width 128 --context 64 --batch 12]

Only import lines are changed, as README says. The file has GPTConfig and GPT, with configure_optimizers and generate. It
runs with fused attention and with attention spelled out, without dropout, in float32. The script prints the largest
differences: absolute for losses and parameters, relative to the parameter's largest element for the first gradients, and
relative to the largest element of all for later ones. (A gradient that is only rounding, such as that of the keys' bias,
Adam scales up to a full step, so that small gradients drift apart.) The exit code is 1 if a difference is above 1e-4, or if
the two models generate different text, with top_k=1.
"""
import argparse
import contextlib
import io
import pathlib
import sys
from collections.abc import Callable, Iterator

if __name__ == "__main__":
    sys.path[:0] = map(str, (pathlib.Path(__file__).parents[1], pathlib.Path(__file__).parent))

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import minigrad as mg  # noqa: E402
import nn  # noqa: E402
from pytorch_files import loaded, with_our_imports  # noqa: E402

BOUND = 1e-4


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


class SideBySide:
    """The same model in both libraries, with the same weights, and an optimizer for each."""

    def __init__(self, source: str, is_fused: bool, sizes: dict[str, int], seed: int = 0):
        torch.manual_seed(seed)
        theirs, ours = loaded(source, "theirs", is_fused), loaded(with_our_imports(source), "ours", is_fused)
        options = dict(weight_decay=0.1, learning_rate=1e-3, betas=(0.9, 0.95), device_type="cpu")
        with quiet():
            self.theirs, self.ours = (module.GPT(module.GPTConfig(**sizes, dropout=0.0)) for module in (theirs, ours))
            self.ours.load_state_dict({name: value.numpy() for name, value in self.theirs.state_dict().items()})
            self.optimizers = [model.configure_optimizers(**options) for model in (self.theirs, self.ours)]
        self.random, self.sizes = np.random.default_rng(seed), sizes

    def batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """A learnable text: each token is the previous one plus 1, or random."""
        shape = size, self.sizes["block_size"] + 1
        starts, jumps = self.random.integers(0, self.sizes["vocab_size"], shape), self.random.random(shape) < 0.2
        last = np.maximum.accumulate(np.where(jumps, np.arange(shape[1]), 0), axis=1)
        tokens = (np.take_along_axis(starts, last, 1) + np.arange(shape[1]) - last) % self.sizes["vocab_size"]
        tokens[:, -1][::3] = -1  # ignored as a target
        return tokens[:, :-1].copy(), tokens[:, 1:].copy()

    def losses(self, batch: tuple[np.ndarray, np.ndarray]) -> list[float]:
        """Both losses, with backward done and the gradients clipped."""
        losses = []
        for library, model, optimizer, clip in zip(
                (torch, mg), (self.theirs, self.ours), self.optimizers, (torch.nn.utils, nn.utils)):
            tokens, targets = map(library.from_numpy, batch)
            _, loss = model(tokens, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            losses.append(loss.item())
            clip.clip_grad_norm_(model.parameters(), 1.0)
        return losses

    def pairs(self, read: Callable) -> list[tuple[np.ndarray, np.ndarray]]:
        """read(parameter) for both models, as arrays."""
        ours, theirs = (dict(model.named_parameters()) for model in (self.ours, self.theirs))
        if ours.keys() != theirs.keys():
            raise KeyError(f"parameters differ: {sorted(ours.keys() ^ theirs.keys())}")
        return [(read(ours[name]).numpy(), read(theirs[name]).numpy()) for name in theirs]

    def texts(self, tokens: int) -> list[list]:
        """What both generate from one prompt, always the likeliest token, beyond the context, too."""
        prompt, texts = self.random.integers(0, self.sizes["vocab_size"], (2, 3)), []
        for library, model in ((torch, self.theirs), (mg, self.ours)):
            model.eval()
            texts.append(model.generate(library.from_numpy(prompt), tokens, top_k=1).tolist())
            model.train()
        return texts


def apart(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The largest difference of each pair."""
    return np.array([abs(ours - theirs).max() for ours, theirs in pairs])


def size(pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """The largest element of each pair."""
    return np.array([abs(theirs).max() for _, theirs in pairs])


def compared(source: str, is_fused: bool, sizes: dict[str, int], batch: int, steps: int) -> dict[str, float]:
    """The largest differences by name; "text" is 0 if both generate the same."""
    pair, of_losses, of_gradients = SideBySide(source, is_fused, sizes), [], []
    for step in range(steps):
        ours, theirs = pair.losses(pair.batch(batch))
        of_losses.append(abs(ours - theirs))
        gradients = pair.pairs(lambda p: p.grad)
        if step == 0:
            first = (apart(gradients) / size(gradients)).max()
        of_gradients.append(apart(gradients).max() / size(gradients).max())
        for optimizer in pair.optimizers:
            optimizer.step()
    ours, theirs = pair.texts(2 * sizes["block_size"])
    return {"loss": of_losses[0], "gradients": first, f"losses of {steps} steps": max(of_losses),
            f"gradients of {steps} steps": max(of_gradients),
            "parameters": apart(pair.pairs(lambda p: p.detach())).max(), "text": float(ours != theirs)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, metavar="MODEL.PY")
    parser.add_argument("--steps", type=int, default=50)
    for flag, size in (("layers", 4), ("heads", 4), ("width", 128), ("context", 64), ("batch", 12)):
        parser.add_argument(f"--{flag}", type=int, default=size)
    flags = parser.parse_args()
    sizes = dict(n_layer=flags.layers, n_head=flags.heads, n_embd=flags.width, block_size=flags.context, vocab_size=65)
    source, worst = flags.model.read_text(encoding="utf-8"), 0.0
    for is_fused in (True, False):
        print("fused attention" if is_fused else "attention spelled out")
        for what, difference in compared(source, is_fused, sizes, flags.batch, flags.steps).items():
            print(f"  {what:24} {difference:.1e}" if what != "text" else f"  the same text: {not difference}")
            worst = max(worst, difference)
    return int(not worst <= BOUND)


if __name__ == "__main__":
    sys.exit(main())
