"""How tensors and graphs are shown: figures, HTML, drawings of the tape."""
