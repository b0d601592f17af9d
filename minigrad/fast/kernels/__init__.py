"""Loops over plain arrays, compiled by Numba: one file per family, named after its file in `minigrad.ops`."""
from . import environment

environment.check()
