"""The gradient check on functions of PyTorch: whom does it accuse wrongly?

    python tests/gradcheck_pytorch.py [--samples 2] [--only NAME] [--after NAME]

It takes the differentiable ops of PyTorch's op_db and the modules of its module_db, on the inputs that come with them,
in float64. It prints each report that does not pass, and a table of verdicts.
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

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db

from minigrad.gradcheck import gradcheck_report

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2, help="of each op or module")
    parser.add_argument("--only", default="", help="ops and modules with this in their name")
    parser.add_argument("--after", default="", help="go on after this one")
    options = parser.parse_args()
    torch.set_num_threads(1)
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
