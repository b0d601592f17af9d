"""The claims of the lecture notes, as functions that check them.

A claim is a function with the row's number, its section in the note and a verdict; its docstring paraphrases the note. It
raises `Refuted` if the verdict does not hold, and returns its finding in a sentence, with the numbers that it measured:

    claim = claims_of("000")

    @claim("A5", "Causal attention", formula="A_ts = I[t >= s] A_ts / sum_s'<=t A_ts'",
           ours='nn.Attention(8, causal="renormalise")', code="nn/attention.py:Attention")
    def zeroing_and_renormalising_is_masking():
        \"\"\"Causal attention: set the weights of the future to zero and renormalise; the same as masking with -inf.\"\"\"
        ...
        require(difference < 1e-12, f"they differ by {difference:.0e}")
        return f"both give the same weights: the largest difference is {difference:.0e}"
"""
import dataclasses
from collections.abc import Callable

TRUE, FALSE = "true", "false as printed"  # verdicts; also "true if ...", "false ..."


class Refuted(Exception):
    """The measurements contradict the verdict."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a lecture note says: where, how this project spells it, and the check that measures it."""

    row: str  # as "A5": a letter for the family, a number
    note: str  # "000" to "004"
    verdict: str
    check: Callable[[], str]
    section: str = ""  # its heading, as printed: one of contents.NOTES
    formula: str = ""  # as printed, or the note's words if it prints none
    ours: str = ""  # the counterpart in this project: the switch, the call
    code: str = ""  # where that is, as "nn/attention.py:Attention"; several with commas
    also: tuple[str, ...] = ()  # other places that state it: "003", or with the heading "003: Self-attention"
    formerly: tuple[str, ...] = ()  # rows that were merged into this one

    @property
    def text(self) -> str:
        """What the note says."""
        return " ".join((self.check.__doc__ or "").split())

    @property
    def name(self) -> str:
        """Its function's name."""
        return self.check.__name__

    @property
    def line(self) -> int:
        """Its first line in its file."""
        return self.check.__code__.co_firstlineno

    @property
    def places(self) -> list[tuple[str, str]]:
        """(note, section) of every place that states it, its own first; the section is "" if unknown."""
        others = (place.partition(": ") for place in self.also)
        return [(self.note, self.section), *((note, section) for note, _, section in others)]


CLAIMS: list[Claim] = []


def claims_of(note: str) -> Callable[..., Callable[[Callable[[], str]], Callable[[], str]]]:
    """A decorator that registers a function as the check of a row of this note."""

    def claim(row: str, section: str = "", verdict: str = TRUE, **fields):
        """`fields`: the other fields of `Claim`."""
        def register(check: Callable[[], str]) -> Callable[[], str]:
            CLAIMS.append(Claim(row, note, verdict, check, section, **fields))
            return check

        return register

    return claim


def require(condition: bool, otherwise: str) -> None:
    """Refuted, with this reason, unless the condition holds."""
    if not condition:
        raise Refuted(otherwise)
