"""Attention's backward on an interactive page: `minigrad study`.

attention.py and block.py are the computations, traced step by step; inputs.py and trained.py get their numbers from a
file or a trained model; formulas.py explains each step, mistakes.py has wrong backwards, shares.py the paths of gradients.
stations.py is the guided path, questions that the page answers.
pages.py puts it all together for `minigrad.tracing.page`, which makes the HTML.
"""
