"""Rows of a table, looked up by number."""
import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.mistakes.base import ROUTINES
from study.mistakes.textbook.lookup import embedding, embedding_backward


def few_ids(generator, shape, sizes):
    """Ids that repeat: only half of the rows are used, in any order."""
    used = generator.choice(sizes["V"], (sizes["V"] + 1) // 2, replace=False)
    return generator.choice(used, shape)


def these(ids, rows, width):
    """These ids, with their numbers permuted."""
    def draw(generator):
        return {"ids": generator.permutation(rows)[np.array(ids)], "weight": generator.normal(size=(rows, width))}
    return draw


EXERCISES = [
    Exercise(
        "embedding", "Embedding", 2, """
        A language model begins by looking up a row of a table for each token: out = weight[ids]. A token that occurs twice
        uses its row twice, one that does not occur leaves its row alone. ids may have any number of axes. Find dweight, in
        the shape of weight. weight is given for its shape: its numbers play no part, as looking up is linear.
        """,
        "out = weight[ids]", "22. Embedding",
        {"ids": Argument("N", few_ids, "numbers of rows, integers, of any shape; some may repeat, some never occur"),
         "weight": Argument("V D", about="the table: a row for each id")},
        ("What is the derivative of out[n] by a row v of weight, if ids[n] is v, and if it is not?",
         "dweight[v] is the sum of dout[n] over all n with ids[n] == v, and zero if there is none.",
         "Begin with zeros and add dout[n] to row ids[n], for each n. Mind that dweight[ids] += dout adds only once where "
         "an id repeats; np.add.at adds each time."),
        embedding_backward, ROUTINES["embedding"], embedding,
        shapes=({"ids": "B N"},),
        special=(
            these([0, 0], 2, 1),
            these([0, 1, 0, 0], 5, 3),
            these([4, 1, 4, 4, 7, 4, 4, 4], 8, 2),
            these([[0, 1, 1], [2, 1, 0]], 6, 2),
            these([[0, 0], [0, 0]], 3, 3),
            these([[[0, 1], [1, 1]], [[2, 0], [1, 3]]], 8, 2),
        ),
    ),
]
