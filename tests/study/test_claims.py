"""The claims of the lecture notes, one test each: `-k A5` runs a row, `-k note_001` a note."""
import pytest

from study.notes import CLAIMS


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.row}-note_{claim.note}-{claim.check.__name__}")
def test_claim(claim):
    assert claim.run()
