"""The claims of the lecture notes, as functions that check them.

A claim is a function with the row's number, its section in the note and a verdict; its docstring paraphrases the note, and
may say more in `PARTS`. It raises `Refuted` if the verdict does not hold, and returns the numbers that it measured:

    claim = claims_of("000")

    @claim("A5", "Causal attention")
    def zeroing_and_renormalising_is_masking():
        \"\"\"Causal attention: set the weights of the future to zero and renormalise; the same as masking with -inf.

        formula: A_ts = I[t >= s] A_ts / sum_s'<=t A_ts'
        here: Attention(8, causal=True)
        \"\"\"
        ...
        require(difference < 1e-12, f"they differ by {difference:.0e}")
        return dict(difference=difference)

Rows are in the notes' order. Their letters: L layout and tokens, A attention, M token-wise networks, R residual connections
and norms, N layer norm, P positions, G architectures, T read-out, sampling and training, C cost and depth, E misprints.
"""
import dataclasses
import inspect
import operator
import re
import types
from collections.abc import Callable

import minigrad as mg
import models
import models.architectures
import models.transformer
import nn
from study.notes.attention import Attention

Check = Callable[[], dict | None]
TRUE, FALSE = "true", "false as printed"  # verdicts; also "true if ...", "false ..."
PARTS = (
    "formula",  # as printed, or the note's words if it prints none
    "here",  # the counterpart in this project: the switch, the call
    "also in",  # other places that state it: "003", or with the heading "003: Self-attention"
    "measured",  # what trainings gave once, which the check does not repeat
)


class Refuted(Exception):
    """The measurements contradict the verdict."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a lecture note says: where, how this project spells it, and the check that measures it."""

    row: str  # as "A5"
    note: str  # "000" to "004"
    verdict: str
    check: Check
    section: str = ""  # its heading, as printed

    @property
    def words(self) -> dict[str, str]:
        """What the note "says", and those of PARTS that there are."""
        says, *rest = re.split(rf"^ *({'|'.join(PARTS)}): ", self.check.__doc__ or "", flags=re.MULTILINE)
        parts = {"says": says, **dict(zip(rest[::2], rest[1::2]))}
        return {name: " ".join(text.split()) for name, text in parts.items()}

    @property
    def code(self) -> str:
        """Where the functions and classes stand that are named "here", as "nn/linear.py:Linear"; several with commas."""
        known = types.SimpleNamespace(**vars(models.architectures) | vars(models.transformer) | self.check.__globals__
                                      | {"Attention": Attention, "mg": mg, "nn": nn, "models": models})
        places = []
        for name in re.findall(r"(?:\w+\.)+\w+|[A-Z]\w+|\w+(?=\()", self.words.get("here", "")):
            try:
                found = operator.attrgetter(name)(known)
            except AttributeError:  # a variable, or a word
                continue
            if inspect.isclass(found) or inspect.isfunction(found):
                places.append(f"{found.__module__.replace('.', '/')}.py:{found.__name__}")
        return ", ".join(dict.fromkeys(places))

    def run(self) -> dict:
        """What the check finds, with all generators seeded."""
        mg.manual_seed(0)
        return self.check() or {}


CLAIMS: list[Claim] = []


def claims_of(note: str) -> Callable[..., Callable[[Check], Check]]:
    """A decorator that registers a function as the check of a row of this note."""

    def claim(row: str, section: str = "", verdict: str = TRUE):
        def register(check: Check) -> Check:
            CLAIMS.append(Claim(row, note, verdict, check, section))
            return check

        return register

    return claim


def require(condition: bool, otherwise: str) -> None:
    """Refuted, with this reason, unless the condition holds."""
    if not condition:
        raise Refuted(otherwise)
