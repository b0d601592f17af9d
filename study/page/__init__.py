"""Attention's backward on a page, to be touched: `minigrad study`.

attention.py and block.py are the computations, which are traced step by step; inputs.py and trained.py are where their
numbers come from, a file or a trained model; formulas.py says what each step does, mistakes.py what can go wrong, shares.py
where a gradient comes from; pages.py puts it together for `minigrad.tracing.page`, which makes the HTML.
"""
