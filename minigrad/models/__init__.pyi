# For editors and type checkers: when Python runs, command/packages.py finds models.
from models import *
