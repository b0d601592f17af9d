"""Is a gradient right, and if not, what is wrong with it? Backward against differences; see docs/gradcheck.md."""
from .differences import FAIL, INCONCLUSIVE, PASS
from .functions import VacuousGradcheckWarning, compare_float32, gradcheck, gradcheck_report, gradgradcheck
from .module import Census, census, gradcheck_module
from .report import GradcheckError, GradcheckReport, InputReport, SideCheck
from .taylor import TaylorReport, taylor
