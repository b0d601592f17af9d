"""The guide to backpropagation through attention, as Markdown and as a notebook, with its pictures."""
