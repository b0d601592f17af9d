"""Tests of a note's claims: one function a row, named after it, with the claim's text as its docstring."""
from collections.abc import Callable

from models.notes import CLAIMS


def tests_of(note: str) -> dict[str, Callable[[], None]]:
    """{test name: test} for all claims of a note."""

    def make(claim):
        def test():
            assert claim.check()

        test.__name__ = f"test_{claim.row}_{claim.name}"
        test.__doc__ = f"{claim.text} Verdict: {claim.verdict}."
        return test

    tests = [make(claim) for claim in CLAIMS if claim.note == note]
    return {test.__name__: test for test in tests}


tests_of.__test__ = False  # pytest would take it for a test, by its name
