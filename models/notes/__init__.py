"""The lecture notes, claim by claim: `minigrad notes` runs them all."""
from models.notes import note_000, note_001, note_002, note_003, note_004
from models.notes.claims import CLAIMS, Claim, Refuted

__all__ = ["CLAIMS", "Claim", "Refuted"]
