"""From someone's numbers to the mistake behind them; if it is not a known one, the facts in words.

`diagnose_numbers(evidence, routine)` looks at the results for several inputs. A known mistake, or two of them together, is
named only if it gives the same numbers on all inputs. If nothing does, the numbers are described, not explained.
"""
from .case import EXACT
from .diagnosis import Diagnosis, Evidence
from .facts import common
from .routine import Known, Routine
from .search import diagnose_numbers

__all__ = ["EXACT", "Diagnosis", "Evidence", "Known", "Routine", "common", "diagnose_numbers"]
