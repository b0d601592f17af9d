"""What is shown of tensors and graphs: figures, HTML, drawings of the tape."""
