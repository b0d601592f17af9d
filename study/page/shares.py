"""The paths by which the gradient of x arrives: through q, k and v, and in a block also through residual connections.

A path is a step and the input that it uses, which may be a norm of x: what the step sends to that input goes on to x.
"""
from minigrad.tracing import Trace
from models.transformer import PLACEMENTS
from study.page.attention import FROM_Q_K_V
from study.page.formulas import SYMBOLS

Paths = dict[tuple[str, str], str]  # {(step, input): label}


def paths_to_x() -> dict[str, Paths]:
    """The paths to x in a head that starts from it."""
    return {"x": {(name, "x"): SYMBOLS[name] for name in FROM_Q_K_V}}


def paths_in_block(trace: Trace, placement: str) -> dict[str, Paths]:
    """The paths to x and to the input of the MLP's sublayer, by that tensor's name."""
    found, x = {}, "x"
    for name, rule, takers in zip(("attention", "mlp"), PLACEMENTS[placement], (FROM_Q_K_V, ("hidden",))):
        inner = f"{name}_input" if rule.norm_before else x
        after = " and the norm" if rule.norm_before else ""
        found[x] = {}
        if rule.residual is not None:
            kept = x if rule.residual == "x" else inner
            found[x][adder(trace, kept, name), kept] = "the residual" + (after if rule.residual == "inner" else "")
        for taker in takers:
            found[x][taker, inner] = SYMBOLS.get(taker, "the MLP") + after
        x = f"{name}_output" if rule.norm_after else f"{name}_sum" if rule.residual is not None else name
    return found


def adder(trace: Trace, kept: str, added: str) -> str:
    """The step that adds a sublayer's result to the residual."""
    terms = [trace[kept], trace[added]]
    return next(step.output.name for step in trace.steps
                if step.op == "Add" and [value for value in step.inputs if value in terms] == terms)
