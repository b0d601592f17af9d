"""Is a gradient right, and if not, what is wrong with it? Backward against differences; see docs/gradcheck.md.

The package can be called: `minigrad.gradcheck(f, x)` is `minigrad.gradcheck.gradcheck(f, x)`, as PyTorch's name for the
function is also the name of this package.
"""
import inspect
import sys
import types
from typing import TYPE_CHECKING, Any, Final

from ..packages import reached
from .api import (
    VacuousGradcheckWarning, assert_gradients, gradcheck, gradcheck_module, gradcheck_report, gradgradcheck,
)
from .causality import Causality, is_causal
from .differences import FAIL, INCONCLUSIVE, PASS
from .report import GradcheckError, GradcheckReport, InputReport, SideCheck

__all__ = [
    "FAIL", "INCONCLUSIVE", "PASS", "Causality", "GradcheckError", "GradcheckReport", "InputReport", "SideCheck",
    "VacuousGradcheckWarning", "assert_gradients", "gradcheck", "gradcheck_module", "gradcheck_report", "gradgradcheck",
    "is_causal",
]

if not TYPE_CHECKING:  # which would allow any name
    def __getattr__(name: str) -> Any:
        """What packages above minigrad have registered as gradcheck's, such as `mutants`."""
        return reached(__name__, name)

__signature__: inspect.Signature = inspect.signature(gradcheck)


class CallableModule(types.ModuleType):
    """A callable module; see "Customizing module attribute access" in Python's documentation."""

    __call__: Final = staticmethod(gradcheck)
    gradcheck_report: Final = staticmethod(gradcheck_report)  # for type checkers, to whom all other names are Any


sys.modules[__name__].__class__ = CallableModule
