"""The gradient check on functions of PyTorch: whom does it accuse wrongly, and what does it catch and name, beside PyTorch's?

    python tests/gradcheck_pytorch.py [--samples 2] [--only NAME] [--after NAME]
    python tests/gradcheck_pytorch.py --wrong 200 [--seed 0]
    python tests/gradcheck_pytorch.py --by-hand

The first takes the differentiable ops of PyTorch's op_db and the modules of its module_db, on the inputs that come with them,
in float64. It prints each report that does not pass, and a table of verdicts. The second takes so many of the mutants of
`minigrad.gradcheck.mutants`, as torch.autograd.Functions, and prints those that either check misses, and those that the
diagnosis names otherwise. The third takes the mistakes of for_pytorch/by_hand.py, and then the tricks there that are right.
"""
import argparse
import collections
import itertools
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
import torch
from for_pytorch.by_hand import RIGHT, WRONG
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from minigrad.gradcheck import gradcheck_report
from minigrad.gradcheck.mutants import MUTANTS, Differentiable

LARGEST = 300  # numbers in all inputs together


def ops(only: str, samples: int) -> Iterator[tuple[str, Callable, list[Any]]]:
    """(name, function, inputs)"""
    for op in op_db:
        if only not in op.name or not op.supports_autograd or torch.float64 not in op.supported_backward_dtypes("cpu"):
            continue
        found = (sample for sample in op.sample_inputs("cpu", torch.float64, requires_grad=True)
                 if is_small([sample.input, *sample.args]))
        for sample in itertools.islice(found, samples):
            yield f"{op.name} {op.variant_test_name}".strip(), differentiable(op, sample), [sample.input, *sample.args]


def differentiable(op: Any, sample: Any) -> Callable:
    """The op as PyTorch's own tests of gradients call it, with those outputs that it calls differentiable."""
    wrapper = op.gradcheck_wrapper or (lambda op, *arguments, **keywords: op(*arguments, **keywords))

    def outputs(*arguments):
        found = sample.output_process_fn_grad(wrapper(op, *arguments, **sample.kwargs))
        leaves, _ = torch.utils._pytree.tree_flatten(found)
        return [x for x in leaves if isinstance(x, torch.Tensor)]

    with torch.enable_grad():
        is_known = [out.requires_grad for out in outputs(sample.input, *sample.args)]
    return lambda *arguments: [out for out, is_one in zip(outputs(*arguments), is_known) if is_one]


def modules(only: str, samples: int) -> Iterator[tuple[str, Callable, list[Any]]]:
    for info in module_db:
        if only not in info.name:
            continue
        inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=True, training=False)
        for given in itertools.islice((i for i in inputs if i.forward_input and not i.forward_input.kwargs), samples):
            module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs).double()
            yield info.name, module, list(given.forward_input.args)


def is_small(value: Any) -> bool:
    leaves, _ = torch.utils._pytree.tree_flatten(value)
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    return sum(x.numel() for x in tensors) <= LARGEST and not any(x.is_sparse or x.layout != torch.strided for x in tensors)


def as_function(mutant: Differentiable) -> type[torch.autograd.Function]:
    def numbers(tensors):
        return [x.detach().numpy().copy() for x in tensors]

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *tensors):
            ctx.save_for_backward(*tensors)
            return torch.tensor(np.array(mutant.forward(*numbers(tensors))))

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, dout):
            found = mutant.gradients(*numbers([dout, *ctx.saved_tensors]))
            return tuple(None if g is None else torch.tensor(np.array(g)) for g in found)

    return Wrong


def wrong_backwards(count: int, seed: int) -> None:
    """Both checks on some of the mutants."""
    names = [name for name, mutant in MUTANTS.items() if not mutant.equivalent]
    chosen = np.random.default_rng(seed).permutation(names)[:count]
    counts, seconds = collections.Counter(), collections.Counter()
    for name in map(str, chosen):
        mutant = MUTANTS[name]
        drawn = [torch.tensor(x) for x in mutant.inputs(np.random.default_rng(seed))]
        inputs = [x.requires_grad_() if x.is_floating_point() else x for x in drawn]
        began = time.perf_counter()
        report = gradcheck_report(as_function(mutant), inputs)
        ours = not report
        middle = time.perf_counter()
        known, diagnosed = report.diagnosis, time.perf_counter()
        try:
            theirs = not torch.autograd.gradcheck(as_function(mutant).apply, inputs)
        except Exception:  # noqa: BLE001  whatever it raises, it noticed
            theirs = True
        seconds.update({"check": middle - began, "diagnosis": diagnosed - middle,
                        "PyTorch": time.perf_counter() - diagnosed})
        answer = "as the table does" if known and mutant.mistake in known.mistake else "otherwise" if known else "not"
        counts.update({"caught": ours, "caught by PyTorch": theirs, f"named {answer}": 1})
        if not (ours and theirs and answer == "as the table does"):
            print(f"{name}: {'caught' if ours else 'MISSED'}, {'caught' if theirs else 'missed'} by PyTorch, named {answer}: "
                  f"{known.mistake or known if known is not None else ''}", flush=True)
    print(f"of {len(chosen)}: {dict(counts)}; seconds {({name: round(value, 1) for name, value in seconds.items()})}")


def by_hand() -> None:
    for rows in (WRONG, RIGHT):
        counts = collections.Counter()
        for name, (fn, inputs, *_) in rows.items():
            inputs = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours = not gradcheck_report(fn, inputs)
                try:
                    theirs = not torch.autograd.gradcheck(getattr(fn, "apply", fn), inputs)
                except Exception:  # noqa: BLE001  whatever it raises, it noticed
                    theirs = True
            counts.update(ours=ours, PyTorch=theirs)
            print(f"{name}: {'refused' if ours else 'passed'}, {'refused' if theirs else 'passed'} by PyTorch", flush=True)
        print(f"of {len(rows)}, refused: {dict(counts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2, help="of each op or module")
    parser.add_argument("--only", default="", help="ops and modules with this in their name")
    parser.add_argument("--after", default="", help="go on after this one")
    parser.add_argument("--wrong", type=int, metavar="N", help="wrong backwards instead")
    parser.add_argument("--seed", type=int, default=0, help="that chooses them")
    parser.add_argument("--by-hand", action="store_true", help="the mistakes by hand instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.by_hand:
        return by_hand()
    if options.wrong:
        return wrong_backwards(options.wrong, options.seed)
    counts, is_open = collections.Counter(), not options.after
    start = time.perf_counter()
    for name, function, inputs in itertools.chain(ops(options.only, options.samples), modules(options.only, options.samples)):
        if not is_open:
            is_open = name == options.after
            continue
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                report = gradcheck_report(function, inputs)
                verdict = report.verdict
            except (TypeError, ValueError, NotImplementedError) as error:
                report, verdict = error, f"refused: {str(error).partition(';')[0][:60]}"
            except Exception as error:  # noqa: BLE001  to be looked at
                report, verdict = error, f"error: {type(error).__name__}"
        counts[verdict] += 1
        seconds = time.perf_counter() - began
        print(f"{name}: {verdict}, {seconds:.1f} s", flush=True)
        if verdict in ("fail", "inconclusive") or verdict.startswith("error"):
            print(f"{report}\n", flush=True)
    for verdict, count in counts.most_common():
        print(f"{count:6} {verdict}")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
