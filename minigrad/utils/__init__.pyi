# For editors and type checkers: when Python runs, command/packages.py finds nn.utils.
from minigrad.nn.utils import *
