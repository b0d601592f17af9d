# For editors and type checkers: when Python runs, command/packages.py finds study.
from study import *
