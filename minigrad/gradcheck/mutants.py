"""Wrong backwards to test a gradient check, or a student, with: `study.mistakes` under another name."""
from .above import handed_on

__getattr__, __dir__ = handed_on("study.mistakes")
