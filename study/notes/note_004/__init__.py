"""Note 004: a lecture that comes to transformers from recurrent networks."""
from study.notes.note_004 import motivation, translation, self_attention, transformers
