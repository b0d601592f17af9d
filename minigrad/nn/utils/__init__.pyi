# For editors and type checkers: when Python runs, command/packages.py finds nn.utils.
from nn.utils import *
