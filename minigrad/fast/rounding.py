"""What implementations of products do under autocast."""
from ..per_thread import this_thread
from .autocast import autocast
from .kernels import bfloat16


class Rounding:
    """An implementation that rounds operands if its forward first ran under autocast: a replay of a compiled step calls
    forward again, perhaps elsewhere, and so does backward."""

    rounds: bool | None = None

    def product(self) -> int:
        """Which product the kernels call, see `gemm.matmul`."""
        if self.rounds is None:
            self.rounds = this_thread.rounds_products
        return bfloat16.product(self.rounds)

    def block(self) -> autocast:
        """A block in which other ops do as this one does."""
        self.product()
        return autocast("cpu", enabled=self.rounds)
