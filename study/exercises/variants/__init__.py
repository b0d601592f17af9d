"""Variants of an exercise, so that students who help one another cannot copy unread.

A variant is the exercise's own function of other arguments, such as out = 1.3 * softmax(0.4 * x^T)^T. Its inputs, right
results and known mistakes are those of the exercise, taken there and back.

    changes.py   what a variant has in place of an argument
    table.py     the changes of each exercise
    mistakes.py  right answers, and known mistakes
    variant.py   the variant that a name has, as an exercise
"""
from .mistakes import ANOTHER, of_everybody
from .variant import AsBase, Variant, has_variants, key_of, variant_of

__all__ = ["ANOTHER", "AsBase", "Variant", "has_variants", "key_of", "of_everybody", "variant_of"]
