"""The operands of an op's products, rounded under autocast."""
from ..per_thread import this_thread
from .autocast import autocast, precision
from .kernels import bfloat16


class RoundsOperands:
    """An implementation that rounds its operands if forward first ran under autocast. Backward, and forward in a replay of
    a compiled step, do the same wherever they run."""

    rounds: bool | None = None

    def described(self) -> tuple[str]:
        return precision(),

    def product(self) -> int:
        """The `product` of `gemm.matmul` and other kernels."""
        if self.rounds is None:
            self.rounds = this_thread.rounds_products
        return bfloat16.product(self.rounds)

    def same_rounding(self) -> autocast:
        """A block in which other ops round as this one does."""
        self.product()
        return autocast("cpu", enabled=self.rounds)
