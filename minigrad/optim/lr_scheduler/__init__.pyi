# For editors and type checkers: when Python runs, command/packages.py finds nn.optim.lr_scheduler.
from nn.optim.lr_scheduler import *
