"""An answer trains a model: `minigrad exercises train FILE...`.

    ops.py          the ops of a small transformer, by the exercises that ask for their backward
    transformer.py  the transformer, and the words that it learns to reverse
    answers.py      an op with a student's backward in place of the library's
    run.py          training, and what came of it
    command.py      the command
"""
