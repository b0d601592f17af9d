# For editors and type checkers: when Python runs, command/packages.py finds nn.functional.
from nn.functional import *
