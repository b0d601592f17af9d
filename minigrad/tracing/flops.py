"""How much there is to compute: multiply-adds, counted from the shapes that operations are given."""
import collections

from ..runner import Observer


class count_flops(Observer):
    """Inside this block multiply-adds of matrix products are counted, operation by operation, forward and backward.

    `forward_counts` and `backward_counts` are Counters by the operation's name, `total` is the sum of all. A multiply-add
    is two floating-point operations. What is done once for each element (norms, activations, softmax) is not counted, and a
    causal attention counts the keys that are seen. Backward of attention counts the scores again, which are recomputed.

    >>> import minigrad as mg
    >>> a, b = mg.ones(2, 3, requires_grad=True), mg.ones(3, 4)
    >>> with count_flops() as count:
    ...     (a @ b).sum().backward()
    >>> count.forward_counts, count.backward_counts, count.total
    (Counter({'MatMul': 24}), Counter({'MatMul': 24}), 48)
    """

    def __enter__(self):
        super().__enter__()
        self.forward_counts, self.backward_counts = collections.Counter(), collections.Counter()
        return self

    def forward(self, op, inputs, arrays, options):
        output = super().forward(op, inputs, arrays, options)
        op.multiply_adds = op.count(arrays, output)
        _add(self.forward_counts, op, op.multiply_adds)
        return output

    def backward(self, op, dout, sums):
        _add(self.backward_counts, op, op.count_backward(getattr(op, "multiply_adds", 0)))
        return super().backward(op, dout, sums)

    @property
    def total(self) -> int:
        return self.forward_counts.total() + self.backward_counts.total()


def _add(counts: collections.Counter, op, multiply_adds: int) -> None:
    if multiply_adds:
        counts[op.title] += multiply_adds
