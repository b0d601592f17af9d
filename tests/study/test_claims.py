"""The claims of the lecture notes, one test each: `-k A5` runs a row, `-k note_001` a note."""
import pytest

import nn
from models.train import Trainer
from study.notes import CLAIMS

TRAINING = {"A45", "G7", "G21", "G31", "G32", "N7"}  # rows that train for more than a second


class Trains(Exception):
    """The claim starts training."""


def of_rows(claims):
    return pytest.mark.parametrize("claim", claims, ids=lambda claim: f"{claim.row}-note_{claim.note}-{claim.check.__name__}")


@of_rows([claim for claim in CLAIMS if claim.row not in TRAINING])
def test_claim(claim):
    assert claim.check()


@of_rows([claim for claim in CLAIMS if claim.row in TRAINING])
def test_claim_until_it_trains(claim, monkeypatch):
    """Checks of formulas, layers and data come before training."""
    def train(*arguments, **options):
        raise Trains

    for owner, name in ((nn.optim, "Adam"), (Trainer, "train")):
        monkeypatch.setattr(owner, name, train)
    with pytest.raises(Trains):
        claim.check()


@pytest.mark.long
@of_rows([claim for claim in CLAIMS if claim.row in TRAINING])
def test_claim_that_trains(claim):
    assert claim.check()


def test_training_rows_are_there():
    assert TRAINING <= {claim.row for claim in CLAIMS}
