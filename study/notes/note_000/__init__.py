"""Note 000: transformers, for matrices whose T rows are tokens of D features."""
from study.notes.note_000 import opening, attention, heads, blocks, predicting, training
