"""From somebody's numbers to the mistake behind them: the nearest known one, or else the facts in words.

`diagnose_numbers(evidence, routine)` looks at what was handed in for several inputs. A known mistake is named only if it
gives the same numbers on all of them; two of them if one is not enough. What fits none is described, not explained.
"""
from .case import EXACT
from .diagnosis import Diagnosis, Evidence
from .routine import Known, Routine, routine_of
from .search import diagnose_numbers

__all__ = ["EXACT", "Diagnosis", "Evidence", "Known", "Routine", "diagnose_numbers", "routine_of"]
