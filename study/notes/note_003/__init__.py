"""Note 003, slides on chapter 12 of Bishop and Bishop, in the order of the slides."""
from study.notes.note_003 import attention, layers, positions
