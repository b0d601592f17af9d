"""Wrong backwards, to try a gradient check on, or a student: `study.mistakes`, under the check's name for it."""
from .above import handed_on

__getattr__, __dir__ = handed_on("study.mistakes")
