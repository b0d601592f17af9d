"""Note 004, row by row; the claims themselves are in models/notes/note_004.py."""
from lecture_notes.rows import tests_of

globals().update(tests_of("004"))
