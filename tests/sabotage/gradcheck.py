"""Sabotages of what gradcheck says of a backward that somebody wrote, and of what depends on what."""
from sabotage.edit import edits

HANDED_IN = "tests/minigrad/gradcheck/test_handed_in.py",

SABOTAGES = [
    *edits(HANDED_IN, "minigrad.gradcheck.mutants.base", {
        "handed in: run again with Tensors": (
            "Differentiable.op", "if isinstance(dout, Tensor):", "if isinstance(dout, Tensor):\n                return self.gradients(dout, *arrays)"),
        "handed in: says nothing": ("Differentiable.__repr__", "{self.statement}", ""),
        "handed in: names of its own": ("Differentiable.arguments", "if self.names:", "if False:"),
    }),
    *edits(HANDED_IN, "minigrad.gradcheck.mutants.fit", {
        "fit: any number": ("fitted", "if len(found) != len(names):", "if False:"),
        "fit: constants have gradients": ("fitted", "if len(found) == len(wanted) < len(names):", "if False:"),
        "fit: a list is one gradient": ("fitted", "if len(wanted) > 1 and", "if False and"),
        "fit: any shape": ("misfit_of", "if gradient.shape != x.shape:", "if False:"),
        "fit: any dtype": ("misfit_of", "if gradient.dtype == x.dtype", "if True"),
        "fit: None for all": ("misfit_of", "if is_needed else", "if False else"),
        "fit: only the first misfit": ("fitted", '"; ".join(misfits)', "misfits[0]"),
        "fit: sums nothing": ("how_to_sum", "if came[i] != 1] + stretched", "if came[i] != 1]"),
    }),
    *edits(HANDED_IN, "minigrad.gradcheck.blame", {
        "blame: the outermost line": ("told", "frames[-1]", "frames[0]"),
        "blame: NumPy's line": ("told", "if not frame.filename.startswith(OURS)", 'if "gradcheck" not in frame.filename'),
    }),
]  # fmt: skip
