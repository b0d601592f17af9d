"""Note 002, row by row; the claims themselves are in models/notes/note_002.py."""
from lecture_notes.rows import tests_of

globals().update(tests_of("002"))
