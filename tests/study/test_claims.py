"""The claims of the lecture notes, one test each: `-k A5` runs a row, `-k note_001` a note."""
import pytest

import nn
from models.train import Trainer
from study.notes import CLAIMS, document, report, training

TRAINING = {"A45", "E38", "G3", "G4", "G6", "G7", "G9", "G10", "G21", "G22", "G25", "G31", "G32", "G33", "N7", "N18", "P2", "P4",
            "P7", "P8", "R8", "R18"}  # rows that train for more than a second


class Trains(Exception):
    """The claim starts training."""


def of_rows(claims):
    return pytest.mark.parametrize("claim", claims, ids=lambda claim: f"{claim.row}-note_{claim.note}-{claim.name}")


def require_holds(claim):
    """And that the document says how it trained models, with five seeds at least."""
    training.SEEDS.clear()
    assert claim.check()
    assert all(len(seeds) >= 5 for seeds in training.SEEDS.values()), "trained with fewer than five seeds"
    text = (document.ROOT / report.DOCUMENT).read_text()
    (row,) = (line for line in text.splitlines() if line.startswith(f'| <a id="{claim.row.lower()}">'))
    assert training.in_words(training.SEEDS) in row, "trained in another way: run `minigrad notes --write`"


@of_rows([claim for claim in CLAIMS if claim.row not in TRAINING])
def test_claim(claim):
    require_holds(claim)


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
    require_holds(claim)
    assert training.SEEDS, "it trains in a way that is not recorded"


def test_training_rows_are_there():
    assert TRAINING <= {claim.row for claim in CLAIMS}
