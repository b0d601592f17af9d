"""`minigrad notes`: its table and exit codes, on made-up claims and a few real ones."""
import functools
import re

import numpy as np
import pytest

import minigrad as mg
import models
import nn
from refusals import one_line
from study.notes import CLAIMS, Claim, Refuted, command
from study.notes.claims import FALSE, TRUE, claims_of, require
from study.notes.helpers import Spread


def water_is_wet():
    """Water
    is | wet.

    formula: w | et
    here: nn.Water(1), nn.Linear(1, 2) or
        MLP
    also in: 003: Self-attention; 002
    """
    return dict(wet_parts=np.array([1.0, 0.25]), drops=np.int64(12_345))


def misprint():
    """A misprint."""
    return dict(as_printed=Spread((2.0, 1.0, 4.0)), mended=0.0)


def long_ago():
    """It learns.

    measured: 100% right, 5 seeds
    """


def stones_float():
    """Stones float."""
    require(False, "none of 3 floated")


def crash():
    """A claim that cannot be checked."""
    raise ZeroDivisionError("by zero")


MISPRINT = Claim("E1", "000", FALSE, misprint, section="Preliminaries")
WET = Claim("A2", "000", TRUE, water_is_wet, section="Self-Attention")
LEARNS = Claim("A10", "001", "true if measured", long_ago)
CRASH = Claim("L1", "003", TRUE, crash, section="Attention")
FLOAT = Claim("C5", "004", TRUE, stones_float, section="Transformers")


@pytest.fixture
def made_up(monkeypatch):
    """A function that replaces all claims."""
    return lambda *claims: monkeypatch.setattr(command, "CLAIMS", list(claims))


@pytest.fixture
def run(run):
    return functools.partial(run, "notes")


def without_seconds(out: str) -> str:
    return re.sub(r" \(\d+\.\d\d s\)", "", out)


def test_claims_are_registered_and_require_refutes():
    count = len(CLAIMS)
    try:
        assert claims_of("000")("Z1", "", FALSE)(misprint) is misprint
        assert CLAIMS[-1] == Claim("Z1", "000", FALSE, misprint)
    finally:
        del CLAIMS[count:]
    require(True, "never said")
    with pytest.raises(Refuted, match="this was found"):
        require(False, "this was found")


def test_table(run, made_up):
    made_up(MISPRINT, WET, LEARNS)
    code, out, err = run()
    assert (code, err) == (0, "") and without_seconds(out) == (
        "E1   note 000  false as printed\n     as printed: 2 (1 to 4), mended: 0\n"
        "A2   note 000  true\n     wet parts: 1 / 0.25, drops: 12,345\n"
        f"A10  note 001  true if measured\n     measured at {command.SINCE}: 100% right, 5 seeds\n"
        "3 claims: 3 hold, 0 do not\n")


def test_rows_and_notes_are_chosen_in_the_notes_order(run, made_up):
    made_up(MISPRINT, WET, LEARNS)
    for choice in (["--row", "a10", "E1"], ["--note", "1", "000"]):
        rows = re.findall(r"^(\w+) +note", run(*choice)[1], re.MULTILINE)
        assert rows == (["E1", "A10"] if "--row" in choice else ["E1", "A2", "A10"])


def test_rows_in_full(run, made_up):
    made_up(MISPRINT, WET)
    assert without_seconds(run("--row", "A2")[1]).splitlines() == [
        "A2   note 000  true", "     section Self-Attention", "     says    Water is | wet.", "     formula w | et",
        "     here    nn.Water(1), nn.Linear(1, 2) or MLP", "     also in 003: Self-attention; 002",
        "     code    nn/linear.py:Linear, models/transformer.py:MLP",
        f"     claim   {__name__}.water_is_wet", "     wet parts: 1 / 0.25, drops: 12,345", "1 claims: 1 hold, 0 do not"]


def test_refuted_claims_end_in_one_line(run, made_up):
    made_up(WET, CRASH, FLOAT)
    code, out, err = run()
    assert (code, err) == (1, "minigrad: error: refuted: L1 (note 003), C5 (note 004)\n")
    assert out.count("REFUTED") == 2 and "none of 3 floated" in out and "ZeroDivisionError: by zero" in out


@pytest.mark.parametrize("arguments, says", [
    (["--row", "A2", "Z9"], "there is no row Z9; there are E1, A2"),
    (["--row"], "--row: expected at least one argument"),
    (["--note", "005"], "there is no note 005; there are 000"),
    (["--note", "000", "--row", "A2"], "argument --row: not allowed with argument --note"),
])
def test_bad_input(run, made_up, arguments, says):
    made_up(MISPRINT, WET)
    one_line(run(*arguments), says, (2,))


def test_claims_are_complete_and_name_what_exists(run):
    missing = [claim.row for claim in CLAIMS if not ({"formula", "here"} <= claim.words.keys() and claim.section and claim.code)]
    assert not missing, f"without section, formula, or a spelling here that names code: {missing}"
    names = {name for claim in CLAIMS for name in re.findall(r"\b(?:nn|mg|models)\.[\w.]*\w", claim.words["here"])}
    assert all(eval(name, {"nn": nn, "mg": mg, "models": models}) for name in names)  # else an AttributeError
    assert len({claim.row for claim in CLAIMS}) == len(CLAIMS) == 128
    assert [claim.note for claim in CLAIMS] == sorted(claim.note for claim in CLAIMS)
    assert run("--row", "P1", "N5")[0] == 0
