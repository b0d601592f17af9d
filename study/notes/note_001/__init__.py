"""Note 001: from recurrent networks to the encoder-decoder, part by part, in the order of the note."""
from study.notes.note_001 import recurrent, self_attention, minimal, decoder, residual, encoder_decoder
