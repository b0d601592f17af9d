"""From someone's numbers to the mistake behind them: `study.mistakes.doctor` under another name."""
from .above import handed_on

__getattr__, __dir__ = handed_on("study.mistakes.doctor")
