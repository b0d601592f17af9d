# For editors and type checkers: when Python runs, command/packages.py finds nn.utils.data.
from nn.utils.data import *
