"""The gradient check on right functions of PyTorch and JAX: which does it accuse?

    python tests/gradcheck_right.py [--library torch] [--dtype float64] [--samples 2] [--only NAME] [--after NAME]

Of PyTorch, it takes the differentiable ops of op_db and the modules of module_db, on the inputs that come with them; of JAX,
the table below. It prints each report that does not pass, and a table of verdicts.
"""
import argparse
import collections
import importlib
import itertools
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from minigrad.gradcheck import gradcheck_report

LARGEST = 300  # numbers in all inputs together


# Those that do not pass, and why. PyTorch excludes or expects the same in its own tests of gradients where a * stands.
KNOWN = {
    "as_strided_scatter": "* the input gets the gradient of what was written over it",
    "native_group_norm": "* gradients through the mean and rstd are lost where the first output is unused",
    "nn.functional.max_unpool": "* where an index repeats, the last value stays, but all get its gradient",
    "nn.CTCLoss": "* it gives the gradient before log_softmax, which is right for normalised inputs alone",
    "nn.KLDivLoss": "* NaN: the logarithm of negative numbers",
    "nn.CrossEntropyLoss": "NaN: the mean of no numbers, as all targets are ignored",
    "as_strided partial_views": "it reads memory outside its input, and the check gives it a copy of the input alone",
    "normal": "a draw, with gradients of zero by design",
    "nn.functional.hardsigmoid": "1/6 in float32",
    "round decimals": "a jump every 1e-3",
    **dict.fromkeys(("bfloat16", "half"), "in float32, the stairs of a single number hide its slope"),
    "logcumsumexp": "in float32, the logarithms of gradients lose the digits of inputs of 1e4",
    "nn.functional.grid_sample": "in bfloat16, rounding moves a coordinate across the border of a cell",
    **dict.fromkeys(("nn.Tanh", "nn.Sigmoid", "nn.GELU"), "in float32, a single large number: little but rounding is left"),
    "nn.functional.cosine_embedding_loss": "in bfloat16, the rounded sum hides the slope",
}


class Right(NamedTuple):
    """A function whose gradients are right."""

    name: str
    function: Callable
    inputs: list[Any]


def torch_rows(dtype: str, only: str) -> Iterator[Iterator[Right]]:
    """The samples of each op and module."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    torch.set_num_threads(1)
    dtype = getattr(torch, dtype)

    def is_small(value):
        tensors = [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]
        return sum(x.numel() for x in tensors) <= LARGEST and all(x.layout == torch.strided for x in tensors)

    def differentiable(op, sample):
        """The op as PyTorch's own tests of gradients call it, with those outputs that it calls differentiable."""
        wrapper = op.gradcheck_wrapper or (lambda op, *arguments, **keywords: op(*arguments, **keywords))

        def outputs(*arguments):
            *arguments, keywords = arguments
            found = sample.output_process_fn_grad(wrapper(op.get_op(), *arguments, **keywords))
            return [x for x in torch.utils._pytree.tree_leaves(found) if isinstance(x, torch.Tensor)]

        inputs = [sample.input, *sample.args, sample.kwargs]
        with torch.enable_grad():
            is_known = [out.requires_grad for out in outputs(*inputs)]
        name = f"{op.name} {op.variant_test_name}".strip()
        return Right(name, lambda *arguments: list(itertools.compress(outputs(*arguments), is_known)), inputs)

    for op in op_db:
        if only in op.name and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
            yield (differentiable(op, sample) for sample in op.sample_inputs("cpu", dtype, requires_grad=True)
                   if is_small([sample.input, sample.args, sample.kwargs]))
    for info in module_db:
        if only in info.name and dtype in info.dtypes:
            inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=False)
            yield (Right(info.name, info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).to(dtype),
                         list(given.forward_input.args))
                   for given in inputs if given.forward_input and not given.forward_input.kwargs)


JAX = (  # a module, kinds of inputs, and its functions of these
    ("jax.numpy", "x", "sin cos tan arctan sinh cosh tanh arcsinh exp expm1 square sinc abs prod cumsum cumprod mean std var "
     "median max sort ptp trapezoid diff tril ravel fliplr"),
    ("jax.numpy", "positive", "log log1p sqrt cbrt reciprocal"),
    ("jax.numpy", "fraction", "arcsin arccos arctanh"),
    ("jax.numpy", "x x", "add multiply hypot arctan2 logaddexp maximum inner kron"),
    ("jax.numpy", "x positive", "divide vdot"),
    ("jax.numpy", "positive x", "power"),
    ("jax.numpy", "square square", "matmul cross tensordot"),
    ("jax.numpy.linalg", "square", "inv det slogdet pinv svd qr norm"),
    ("jax.numpy.linalg", "definite", "cholesky eigh"),
    ("jax.numpy.linalg", "definite square", "solve"),
    ("jax.nn", "x", "relu relu6 gelu silu mish elu selu celu leaky_relu softplus squareplus sigmoid log_sigmoid soft_sign "
     "hard_tanh hard_silu softmax log_softmax logsumexp standardize glu"),
    ("jax.nn", "heads heads heads", "dot_product_attention"),
    ("jax.lax", "positive", "rsqrt lgamma digamma bessel_i0e bessel_i1e"),
    ("jax.lax", "x", "erf erfc logistic cumlogsumexp cummax"),
    ("jax.lax", "fraction", "erf_inv"),
    ("jax.scipy.special", "x", "ndtr log_ndtr i0 i1"),
    ("jax.scipy.special", "positive", "entr gammaln"),
    ("jax.scipy.special", "x positive", "xlogy xlog1py"),
    ("jax.scipy.stats.norm", "x", "logpdf logcdf"),
    ("jax.scipy.linalg", "square", "expm"),
)


def jax_rows(dtype: str, only: str) -> Iterator[Iterator[Right]]:
    """One of each function."""
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    jnp, generator = jax.numpy, np.random.default_rng(0)

    def drawn(kind):
        shapes = {"square": (3, 3), "definite": (3, 3), "heads": (2, 4, 2, 3), "signal": (1, 2, 6)}
        x = generator.normal(size=shapes.get(kind, (3, 4)))
        known = {"positive": lambda: np.exp(x), "fraction": lambda: 0.9 * np.tanh(x), "definite": lambda: x @ x.T + np.eye(3)}
        return jnp.asarray(known[kind]() if kind in known else x, dtype)

    functions = [(f"{module}.{name}", getattr(importlib.import_module(module), name), kinds)
                 for module, kinds, names in JAX for name in names.split()]
    functions += [
        ("where", lambda x, y: jnp.where(x > y, x * y, x - y), "x x"),
        ("take", lambda x: x[jnp.array([0, 2, 0])], "x"),
        ("at[].set", lambda x, y: x.at[1].set(y[0]), "x x"),
        ("einsum", lambda a, b: jnp.einsum("ij,kj->ik", a, b), "x x"),
        ("scan", lambda x, y: jax.lax.scan(lambda h, row: (jnp.tanh(h + row), h * row), y[0], x), "x x"),
        ("fori_loop", lambda x: jax.lax.fori_loop(0, 3, lambda i, h: jnp.sin(h) + x, x), "x"),
        ("map", lambda x: jax.lax.map(jnp.tanh, x), "x"),
        ("cond", lambda x: jax.lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), "x"),
        ("vmap", jax.vmap(lambda x, y: x @ y * x), "x x"),
        ("jit", jax.jit(lambda x: jax.nn.softmax(x) * x), "x"),
        ("checkpoint", jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), "x"),
        ("custom_root", lambda x: jax.lax.custom_root(lambda y: y**3 - x, x, lambda f, y: x ** (1 / 3),
                                                      lambda g, y: y / g(jnp.ones_like(y))), "positive"),
        ("conv", lambda x, w: jax.lax.conv(x, w[:, :, :3], (1,), "SAME"), "signal signal"),
        ("reduce_window", lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2), (1, 1), "VALID"), "x"),
        ("resize", lambda x: jax.image.resize(x, (5, 7), "cubic"), "x"),
        ("the absolute values of an fft", lambda x: jnp.abs(jnp.fft.rfft(x)), "x"),
        ("grad", jax.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2)), "x"),
    ]
    for name, function, kinds in functions:
        if only in name:
            yield iter([Right(name, function, [drawn(kind) for kind in kinds.split()])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", choices=ROWS, default="torch")
    parser.add_argument("--dtype", choices=("float64", "float32", "bfloat16"), default="float64")
    parser.add_argument("--samples", type=int, default=2, help="of each op or module")
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--after", default="", help="go on after this one")
    options = parser.parse_args()
    counts, start = collections.Counter(), time.perf_counter()
    rows = itertools.chain.from_iterable(itertools.islice(row, options.samples)
                                         for row in ROWS[options.library](options.dtype, options.only))
    if options.after:
        rows = itertools.dropwhile(lambda right: right.name == options.after,
                                   itertools.dropwhile(lambda right: right.name != options.after, rows))
    for right in rows:
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report, verdict = judged(right)
        known = "" if verdict == "pass" else next((why for name, why in KNOWN.items() if right.name.startswith(name)), "")
        counts[f"{verdict} as known" if known else verdict] += 1
        print(f"{right.name}: {verdict}, {known and f'{known}, '}{time.perf_counter() - began:.1f} s", flush=True)
        if verdict != "pass" and not known and not verdict.startswith("refused"):
            print(f"{report}\n", flush=True)
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    print(f"{time.perf_counter() - start:.0f} s")


def judged(right: Right) -> tuple[Any, str]:
    """The report, or the error that it raised, and the verdict."""
    try:
        report = gradcheck_report(right.function, right.inputs)
        return report, report.verdict
    except (TypeError, ValueError, NotImplementedError) as error:
        return error, f"refused: {str(error).partition(';')[0][:60]}"
    except Exception as error:  # noqa: BLE001  to be looked at
        return error, f"error: {type(error).__name__}"


ROWS = {"torch": torch_rows, "jax": jax_rows}

if __name__ == "__main__":
    main()
