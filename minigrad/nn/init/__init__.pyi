# For editors and type checkers: when Python runs, command/packages.py finds nn.init.
from nn.init import *
