"""An exercise, and its verdict; and one of a teacher's own."""
import numpy as np

from study.exercises import COURSE, check
from study.mistakes import FUNCTIONS, MUTANTS


def softmax_backward(dout: np.ndarray, x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    dx: np.ndarray = p * dout  # the sum over the row is missing
    return dx


if __name__ == "__main__":
    report = check(softmax_backward, "softmax", seed=0)
    assert not report
    print(report.mistake, report.sentence, report.as_dict()["verdict"])
    print(len(COURSE), COURSE["softmax"].signature, len(MUTANTS), FUNCTIONS["softmax"])
