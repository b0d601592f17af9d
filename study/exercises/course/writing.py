"""How a trained model writes: the probabilities from which the next token is drawn."""
import numpy as np

from study.exercises.course.elementwise import AROUND_1000
from study.exercises.course.training import between
from study.exercises.exercise import Argument, Exercise
from study.mistakes.solutions import routine_of


def distinct(generator, shape, sizes):
    """Logits without ties: of two equal ones at the threshold, either may be dropped."""
    return generator.uniform(0.0, 6.0, size=shape)


def next_token(logits, temperature, top_p):
    scaled = logits / temperature
    e = np.exp(scaled - scaled.max())
    p = e / e.sum()
    order = np.argsort(-p)
    sums = np.cumsum(p[order])
    before = (sums - p[order])[np.argsort(order)]
    kept = np.where(before < top_p, p, 0.0)
    return kept / kept.sum()


NEXT_TOKEN = routine_of(next_token, ("p",), {
    "no temperature": ("the temperature is missing: the logits are divided by it", "scaled = logits"),
    "times temperature": ("the logits are multiplied by the temperature: they should be divided by it",
                          "scaled = logits * temperature"),
    "no exponential": ("the exponential is missing: probabilities are proportional to e^(logit / temperature)",
                       "p = scaled / scaled.sum()"),
    "nothing left out": ("top_p is not used: every token keeps its probability", "kept = p"),
    "not normalised": ("what is kept does not add up to 1: divide it by its sum", "return kept"),
    "normalised by top_p": ("what is kept is divided by top_p: its own sum is larger", "return kept / top_p"),
    "too few": ("the token that brings the sum to top_p is left out: it is the last that is kept",
                "before = sums[np.argsort(order)]; kept = np.where(before <= top_p, p, 0.0)"),
    "one too many": ("one token too many is kept: the one that brings the sum to top_p is the last",
                     "before = (sums - p[order] - np.append(0.0, p[order][:-1]))[np.argsort(order)]"),
    "unlikely ones": ("the least likely tokens are kept: start from the likeliest", "order = np.argsort(p)"),
    "each alone": ("each probability is compared with top_p: it is the sum that counts, from the likeliest on",
                   "kept = np.where(p >= top_p, p, 0.0)"),
    "only the likeliest": ("only the likeliest token is kept, whatever top_p is", "kept = np.where(p == p.max(), p, 0.0)"),
    "order of the tokens": ("sums are taken in the order of the vocabulary: sort the probabilities first",
                            "order = np.arange(len(p))"),
    "sorted": ("the probabilities come out sorted: each belongs in the place of its token",
               "return (kept / kept.sum())[order]"),
    "not put back": ("the sums are in sorted order, the probabilities in that of the vocabulary: put the sums back first",
                     "before = sums - p[order]"),
    "left out too early": ("tokens are left out by their probabilities at temperature 1: divide by the temperature first",
                           "weights = np.exp(logits - logits.max()); q = weights / weights.sum(); order = np.argsort(-q); "
                           "sums = np.cumsum(q[order]); before = (sums - q[order])[np.argsort(order)]"),
    "softmax of probabilities": ("the last step is another softmax: divide by the sum, so that 0 stays 0",
                                 "return np.exp(kept) / np.exp(kept).sum()"),
})

EXERCISES = [
    Exercise(
        "next_token", "The next token of a text", 3, """
        A language model gives each token of its vocabulary a logit, and the next token is drawn from the softmax of these
        logits. A temperature below 1 favours likely tokens, and top_p drops the unlikely ones, which are many and spoil a
        text. Divide the logits by the temperature and take their softmax. Keep the likeliest tokens, only as many as it
        takes for their probabilities to add up to top_p; the others get 0. Rescale what is left to sum to 1, and return the
        probability of each token.
        """,
        "p = softmax(logits / temperature);  p = 0 for all but the fewest likeliest tokens that reach top_p;  p / sum(p)",
        "",
        {"logits": Argument("V", distinct, "one for each token of the vocabulary"),
         "temperature": Argument("", between(0.5, 1.5), "divides the logits"),
         "top_p": Argument("", between(0.3, 0.95), "the total probability to keep")},
        ("How much probability do all likelier tokens have together? If that is top_p or more, this token is dropped.",
         "Sort p in descending order with np.argsort(-p), take cumulative sums and subtract p: what comes before each.",
         "With order = np.argsort(-p), np.argsort(order) takes sorted numbers back to their tokens. Keep p where what "
         "comes before is below top_p, put 0 elsewhere, and divide by the sum."),
        next_token, NEXT_TOKEN, stub="p = np.zeros_like(logits)  # your formula",
        special=(
            lambda r: {"logits": r.permutation(np.linspace(-2.0, 3.0, 9)), "temperature": 1.0, "top_p": 1.0},
            lambda r: {"logits": r.permutation(np.linspace(-2.0, 3.0, 9)), "temperature": 0.7, "top_p": 0.05},
            lambda r: {"logits": r.permutation(np.linspace(-2.0, 3.0, 9)), "temperature": 1.4, "top_p": 0.8}),
        beyond={AROUND_1000: lambda r: {"logits": 1000 + r.normal(size=5), "temperature": 1.0, "top_p": 0.9}},
        example=lambda: {"logits": np.array([1.0, 3.0, 2.0, 0.0]), "temperature": 1.0, "top_p": 0.8},
    ),
]
