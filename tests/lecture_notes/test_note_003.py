"""Note 003, row by row; the claims themselves are in models/notes/note_003.py."""
from lecture_notes.rows import tests_of

globals().update(tests_of("003"))
