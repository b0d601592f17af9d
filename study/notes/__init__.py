"""The lecture notes, claim by claim: `minigrad notes` runs them all."""
from study.notes import note_000, note_001, note_002, note_003, note_004
from study.notes.claims import CLAIMS, Claim, Refuted

__all__ = ["CLAIMS", "Claim", "Refuted"]
