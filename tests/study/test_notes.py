"""`minigrad notes`: its table and exit codes, on made-up claims and a few real ones."""
import pathlib
import re

import numpy as np
import pytest

import minigrad as mg
import models
import nn
from sessions import replay
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


def test_made_up_claims(run, monkeypatch):
    monkeypatch.setattr(command, "CLAIMS", [MISPRINT, WET, LEARNS, CRASH, FLOAT])
    replay(pathlib.Path(__file__).with_name("notes.session"), "made-up claims", run)


def test_claims_are_complete_and_name_what_exists(run):
    missing = [claim.row for claim in CLAIMS if not ({"formula", "here"} <= claim.words.keys() and claim.section and claim.code)]
    assert not missing, f"without section, formula, or a spelling here that names code: {missing}"
    names = {name for claim in CLAIMS for name in re.findall(r"\b(?:nn|mg|models)\.[\w.]*\w", claim.words["here"])}
    assert all(eval(name, {"nn": nn, "mg": mg, "models": models}) for name in names)  # else an AttributeError
    assert len({claim.row for claim in CLAIMS}) == len(CLAIMS) == 128
    assert [claim.note for claim in CLAIMS] == sorted(claim.note for claim in CLAIMS)
    assert run("notes", "--row", "P1", "N5")[0] == 0
