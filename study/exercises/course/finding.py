"""Exercises in finding mistakes: write a checker, find a leak in a mask.

Each has its own judge in `study/exercises/finding`, which draws the functions anew.
"""
from collections.abc import Callable

import numpy as np

from study.exercises.exercise import Argument, Exercise
from study.exercises.finding.checkers import grade
from study.exercises.finding.leaks import hunt
from study.mistakes.doctor import Routine


def find_leak(model, x):
    generator = np.random.default_rng()
    before = model(x)
    for j in range(1, len(x)):
        moved = x.copy()
        moved[j] = generator.normal(size=x.shape[1])
        change = np.abs(model(moved) - before).max(axis=1)
        earlier = np.flatnonzero(change[:j] > 1e-9)
        if len(earlier):
            return int(earlier[0]), j
    return None


def check_gradient(forward, backward, inputs):
    generator = np.random.default_rng()
    dout = generator.normal(size=np.shape(forward(*inputs)))
    gradients = backward(dout, *inputs)
    if len(gradients) != len(inputs):
        return False
    for k, (x, gradient) in enumerate(zip(inputs, gradients)):
        if x.dtype.kind != "f":  # ids and masks have no gradient
            continue
        if gradient is None or np.shape(gradient) != x.shape:
            return False
        differences = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            h = 1e-5 * max(1.0, abs(x[i]))
            up, down = list(inputs), list(inputs)
            up[k], down[k] = x.copy(), x.copy()
            up[k][i] += h
            down[k][i] -= h
            differences[i] = (dout * (forward(*up) - forward(*down))).sum() / (2 * h)
        error = np.abs(gradient - differences).max()
        if not error <= 1e-6 * np.abs(differences).max() + 1e-9:  # also if it is NaN
            return False
    return True


def judged_exercise(solution: Callable, judged: Callable, **fields) -> Exercise:
    """An exercise with its own judge: no results are compared, so its routine has no parts."""
    arguments = tuple(fields["arguments"])
    name = solution.__name__
    routine = Routine(name, solution, arguments, (fields.pop("result"),))
    return Exercise(name=name, solution=solution, judged=judged, routine=routine, **fields)


EXERCISES = [
    judged_exercise(
        find_leak, hunt, title="A mask that leaks", difficulty=2, result="pair",
        statement="""
        A language model must not see the token that it is to predict. If its mask lets one future token through, the
        loss looks wonderful, and the model is worthless. Here is causal attention with two heads whose mask may have such
        a hole, in one head, at one place, drawn anew each time. You cannot see the mask, you can only call the model.
        Return (i, j): the output i that changes with the later token j, counted from 0; or None if nothing leaks.
        """,
        formula="causal: out[i] depends on x[0], ..., x[i] only", guide="6. The mask",
        arguments={"model": Argument("a function", about="model(x) gives an array: a row for each token"),
                   "x": Argument("T C", about="T tokens; a T of 1 is possible")},
        hints=("What happens to out if you change one token of x? Which rows of out may change, and which must not?",
               "Change one token j at a time, and compare the rows before j with those from before the change.",
               "For each j from 1: copy x, replace row j by random numbers, and look at "
               "np.abs(model(moved) - model(x)).max(axis=1) for rows i < j. More than 1e-9 is a leak."),
        stub="pair = None  # nothing leaks",
        demo="""
        def model(x):  # output 1 sees token 2, its future
            out = np.cumsum(x, axis=0)
            out[1] += x[2]
            return out

        print(find_leak(model, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])))  # right is: (1, 2)
        """),
    judged_exercise(
        check_gradient, grade, title="A gradient checker", difficulty=4, result="is_right",
        statement="""
        The tool that finds all these mistakes, by your own hand: is a backward right? Return True or False. You get
        functions to call, nothing to read. The judge hands you each right function of its library, and wrong
        backwards of each, a few hundred drawn anew. No right one may be accused, and every wrong one that is off by half a
        percent must be found. backward(dout, *inputs) gives a tuple with a gradient for each input, None for ids and
        masks (inputs that aren't floats). A wrong one may also give None where a gradient belongs, a wrong number of
        them, a wrong shape, or NaN, or raise an exception (let it: then it is found). Leave the inputs as they are.
        """,
        formula="dx[i] = sum of dout * (forward(x + h e_i) - forward(x - h e_i)) / (2 h), e_i: 1 at i, else 0",
        guide="9. How to check a gradient",
        arguments={"forward": Argument("a function", about="forward(*inputs) gives an array"),
                   "backward": Argument("a function", about="backward(dout, *inputs) gives a tuple of gradients"),
                   "inputs": Argument("a list", about="of arrays: floats, and for some functions ids or masks")},
        hints=("Why is a dout of ones not enough? What is the gradient of the sum of a softmax?",
               "Central differences, h about 1e-5, for each entry of each float input. First see that there are as many "
               "gradients as inputs, and that their shapes are right: NumPy broadcasts without a word.",
               "Compare the largest error with the largest difference: error <= 1e-6 * largest + 1e-9. Write it so that "
               "NaN fails: `if not error <= ...: return False`. And draw dout from a normal distribution."),
        stub="is_right = True  # without looking",
        demo="""
        def forward(x):
            return np.tanh(x)

        def right(dout, x):
            return (dout * (1 - np.tanh(x)**2),)

        def wrong(dout, x):
            return (dout * (1 - np.tanh(x)),)

        inputs = [np.array([[0.3, -1.2, 0.5]])]
        print(check_gradient(forward, right, inputs), check_gradient(forward, wrong, inputs))  # right is: True False
        """),
]
