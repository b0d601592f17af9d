"""From numbers to the mistake: known ones are named, others are described, and nothing is made up."""
import dataclasses
import functools

import numpy as np
import pytest
from tables import each, one_in

import minigrad as mg
from minigrad.gradcheck import gradcheck_report
from study.mistakes import FUNCTIONS, MUTANTS
from study.mistakes.base import ROUTINES, as_tuple
from study.mistakes.consult import renamed
from study.mistakes.doctor import Evidence, Known, Routine, diagnose_numbers

PROMISES = "square", "sum_of_products"  # whose mistakes break what a backward promises


def draws(name, seeds):
    """The inputs on which a function's mutants are checked, with an upstream gradient, by name."""
    function = FUNCTIONS[name]
    for seed in seeds:
        generator = np.random.default_rng((seed, 5))
        arrays = function.inputs(generator)
        dout = generator.normal(size=np.shape(function.forward(*arrays)))
        yield dict(zip(("dout", *function.arguments), (dout, *arrays))) | function.options


def given_by(backward, routine, inputs):
    """A backward's results by name; none if it raises."""
    try:
        with np.errstate(all="ignore"):
            found = backward(*(a.copy() if isinstance(a, np.ndarray) else a for a in inputs.values()))
    except Exception:  # noqa: BLE001  two mistakes together may raise anything
        return {}
    return dict(zip(routine.results, found if isinstance(found, tuple) else (found,), strict=True))


def diagnosed(backward, routine, inputs):
    return diagnose_numbers([Evidence(point, routine.run(point), given_by(backward, routine, point)) for point in inputs],
                            routine)


def changed(routine, changes):
    """The routine with these parts replaced, as someone's backward."""
    return lambda *arrays: tuple(routine.run(dict(zip(routine.arguments, arrays)), changes).values())


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in PROMISES])
def test_known_mistakes_and_edits_are_named_or_others_with_the_same_numbers(name):
    routine, points = ROUTINES[name], list(draws(name, range(6)))
    edits = routine.edits()

    def is_named(mistake):
        wrong = changed(routine, mistake.changes)
        inputs = [point for point in points if given_by(wrong, routine, point)]
        if len(inputs) > 1:  # else it raises
            found = diagnosed(wrong, routine, inputs)
            assert found.is_right or not found.mistakes and "NaN" in found.sentence or "explains all" in found.certainty, found

    each([*routine.mistakes[:: max(1, len(routine.mistakes) // 4)], *edits[:: max(1, len(edits) // 4)]], is_named)


def test_the_right_backward_is_called_right():
    def is_called_right(name):
        found = diagnosed(changed(ROUTINES[name], {}), ROUTINES[name], draws(name, range(4)))
        assert found.is_right and not found and found.sentence == ""

    each(FUNCTIONS.keys(), is_called_right)


def mean(a):
    return a.mean(-1, keepdims=True)


def affine_backward(dout, x, w, b):
    return dout @ w.T, x.T @ dout, dout.sum(0)


AFFINE = Routine("affine", affine_backward, ("dout", "x", "w", "b"), ("dx", "dw", "db"))
SIZES = [(2, 2, 2), (3, 3, 3), (2, 3, 4), (5, 2, 3), (1, 3, 2), (1, 1, 1), (4, 5, 7)]  # rows, width in, width out


def affine_inputs(seed=0):
    generator = np.random.default_rng(seed)
    for rows, width, out in SIZES:
        yield dict(dout=generator.normal(size=(rows, out)), x=generator.normal(size=(rows, width)),
                   w=generator.normal(size=(width, out)), b=generator.normal(size=out))


def linear_inputs(*shapes):
    """Inputs of x @ weight.T + bias, for x of these shapes."""
    generator = np.random.default_rng(0)
    for shape in shapes:
        weight = generator.normal(size=(4, shape[-1]))
        yield dict(dout=generator.normal(size=(*shape[:-1], 4)), x=generator.normal(size=shape), weight=weight,
                   bias=generator.normal(size=4))


def test_a_sum_with_keepdims_counts_as_summed_and_the_right_shape_is_named():
    routine = ROUTINES["linear"]

    def is_recognised(dbias):
        def wrong(dout, *inputs):
            dx, dweight, _ = routine.right(dout, *inputs)
            return dx if dout.ndim > 2 else -dx, dweight, dbias(dout)

        found = diagnosed(wrong, routine, linear_inputs((3, 2), (2, 3), (2, 2, 2), (3, 2, 5)))
        assert "instead of (4,)" in found.sentence and "instead of (2, 4)" not in found.sentence
        assert "not summed" not in found.sentence

    each([lambda dout: dout.sum(0, keepdims=True), lambda dout: -dout.sum(0, keepdims=True),
          lambda dout: dout.sum(0).ravel()], is_recognised)


def last_row_zero(a):
    return a * (np.arange(len(a)) < len(a) - 1)[:, None]


def of(dout, x, w, b):
    return dict(zip(AFFINE.results, affine_backward(dout, x, w, b)))


def of_float32(*arrays):
    return of(*(a.astype(np.float32) for a in arrays))


# wrong gradients of x @ w + b, in terms of the right ones; the relation's names; part of the sentence
EXACT_RELATIONS = [
    ("dw=0 * w", "zero", "dw is zero everywhere"),
    ("dw=None", "none", "dw is None"),
    ("dx=-dx, dw=-dw", "negated", "dx and dw have the wrong sign"),
    ("dw=dw.T", "transposed", "dw is transposed"),
    ("dx=2 * dx", "factor", "dx is multiplied by 2"),
    ("dx=dx / 3", "factor", "dx is multiplied by 1/3"),
    ("db=dout.mean(0)", "factor", "db is multiplied by 1/N, N = the number of rows of x: as if a mean replaced a sum"),
    ("dx=dx / np.sqrt(x.shape[1])", "factor",
     "dx is multiplied by 1/sqrt(N), N = the width of x: as if it were divided by sqrt(N) once too"),
    ("dx=dx * len(b)", "factor", "dx is multiplied by N, N = the width of w"),
    ("dx=1.0001 * dx", "factor", "dx is multiplied by 1.0001: a constant with too few digits"),
    ("db=dout", "unsummed", "db is not summed: it has shape (2, 2) instead of (2,)"),
    ("db=db[None]", "other shape", "db has the right numbers in shape (1, 2) instead of (2,), with an extra axis"),
    ("dx=dx.ravel()", "other shape", "dx has the right numbers in shape (4,) instead of (2, 2)"),
    ("dw=dw.sum(-1)", "summed", "dw is summed over its last axis, which should be kept"),
    ("db=0 * b + dout.sum()", "summed", "db is summed over its last axis, which should be kept, with the same number all"),
    ("**of(np.ones_like(dout), x, w, b)", "upstream ignored", "dx, dw and db do not depend on the upstream gradient"),
    ("dw=x[-1:].T @ dout[-1:], db=dout[-1]", "last only",
     "dw and db are made of only the last entry of dout along its first axis"),
    ("db=dout[0]", "first only", "db is made of only the first entry of dout"),
    ("dx=last_row_zero(dx)", "last zero", "dx is right, except that the last"),
    ("**of_float32(dout, x, w, b)", "rounded",
     "dx, dw and db are right to only about 7 digits, as with float32, a rounded constant"),
    ("dw=x[1:].T @ dout[1:]", "first row left out",
     "dw is what would be right if the first row of dout were left out, as if a loop started at 1"),
    ("dw=x[:-2].T @ dout[:-2]", "rows left out",
     "dw is what would be right if the last 2 rows of dout were left out, as if an incomplete block at the end were skipped"),
    ("dx=dout[:, :-1] @ w[:, :-1].T", "last column left out",
     "dx is what would be right if the last column of dout were left out"),
    ("dw=np.abs(x).T @ dout", "absolute", "dw is what would be right if x were replaced by its absolute value"),
    ("dx=dout @ w.reshape(w.T.shape)", "reshaped",
     "dx is what would be right if w were reshaped instead of transposed"),
    ("dw=np.roll(x, 1, 0).T @ dout", "shifted down", "dw is what would be right if the rows of x were shifted down by one"),
    ("dx=dx + x", "something added", "dx is right, except that x is added to it"),
    ("db=db - b", "something added", "db is right, except that b is subtracted from it"),
    ("dx=(dout + b) @ w.T", "added on the way", "dx is what would be right if b were added to dout"),
    ("dx=-dx, dw=dw.T, db=dout.mean(0)", "negated, transposed, factor",
     "dx has the wrong sign; dw is transposed; db is multiplied by 1/N"),
]


def test_exact_relations_need_no_table():
    def is_found(row):
        wrong, names, said = row

        def backward(dout, x, w, b):
            known = {**globals(), **of(dout, x, w, b), "dout": dout, "x": x, "w": w, "b": b}
            return tuple((of(dout, x, w, b) | eval(f"dict({wrong})", known)).values())

        found = diagnosed(backward, AFFINE, affine_inputs())
        assert found and ", ".join(found.names) == names and said in found.sentence

    each(EXACT_RELATIONS, is_found)


def test_a_mask_of_its_own_is_recognised():
    generator = np.random.default_rng(5)
    found = diagnosed(lambda dout, x, mask, p: dout * (generator.random(x.shape) < 0.5) / 0.6,
                      dataclasses.replace(ROUTINES["dropout"], mistakes=(), edits=tuple), draws("dropout", range(3)))
    assert found.names == ("another mask",) and "dx has a mask of its own: mask is not used" in found.sentence


def test_a_mistake_that_guards_against_division_by_zero_is_still_named():
    def careful(dout, x, weight, bias, eps):
        c = x - mean(x)
        rstd = 1 / np.sqrt((c * c).sum(-1, keepdims=True) / max(x.shape[-1] - 1, 1) + eps)
        g, x_hat = dout * weight, c * rstd
        return rstd * (g - mean(g) - x_hat * mean(g * x_hat)), (dout * x_hat).sum(0), dout.sum(0)

    inputs = [{"dout": r.normal(size=shape), "x": r.normal(size=shape), "weight": np.ones(shape[1]), "bias": np.ones(shape[1]), "eps": 1e-5}
              for r in [np.random.default_rng(0)] for shape in ((2, 1), (3, 5), (5, 4), (4, 6))]
    found = diagnosed(careful, ROUTINES["layer_norm"], inputs)
    assert "the variance is divided by N - 1" in found.sentence


def test_nan_and_infinity_are_described_and_not_explained():
    def is_recognised(number):
        found = diagnosed(lambda dout, x: x * number, ROUTINES["softmax"], draws("softmax", range(4)))
        assert found.names == () and ("NaN" if np.isnan(number) else "inf") in found.sentence
        unknown = dataclasses.replace(ROUTINES["softmax"], mistakes=(), edits=tuple)
        assert diagnosed(lambda dout, x: x * number, unknown, draws("softmax", [0])).names == ()

    each([np.nan, np.inf], is_recognised)


ATTENTION = {
    "exchanged": (lambda dq, dk, dv: (dv, dk, dq), ("exchanged",), "dq is what dv should be; dv is what dq should be"),
    "batch reversed": (lambda dq, dk, dv: (dq, dk.T, dv), ("axes reversed",), "dk has all axes reversed"),
    "rows reversed": (lambda dq, dk, dv: (dq, dk[:, :, ::-1], dv), (), "dk is wrong, dq and dv are right; dk is off by up to"),
}


def test_relations_between_gradients():
    right, routine = FUNCTIONS["attention"].gradients, dataclasses.replace(ROUTINES["attention"], mistakes=(), edits=tuple)

    def is_found(name, row):
        change, names, said = row
        found = diagnosed(lambda *inputs: change(*right(*inputs)), routine, draws("attention", range(3)))
        assert found.names == names and said in found.sentence

    each(ATTENTION, is_found)


OWN = {  # the function, what is replaced in its backward by what for which gradient, and parts of what is said
    "attention": ({"dq": "no scale in dq", "dk": "diagonal only"}, "the scale 1 / sqrt(d) is missing in dq"),
    "layer_norm": ({"dx": "sums for means", "dweight": "dweight over axis 1"}, "dweight is summed over axis 1 alone"),
    "linear": ({"dbias": "dbias of the last axis"}, "dbias is summed along the last axis"),
}


def test_each_gradient_may_have_a_mistake_of_its_own():
    def are_named(name, row):
        wanted, said = row
        routine = ROUTINES[name]
        changes = {mistake.name: mistake.changes for mistake in routine.mistakes}

        def backward(*arrays):
            inputs = dict(zip(routine.arguments, arrays))
            return tuple(routine.run(inputs, changes[wanted[result]] if result in wanted else {})[result]
                         for result in routine.results)

        found = diagnosed(backward, routine, draws(name, range(3)))
        assert set(found.names) == set(wanted.values()) and said in found.sentence, found

    each(OWN, are_named)


ON_TOP = {
    "axes reversed": lambda dq: dq.T, "transposed": lambda dq: np.swapaxes(dq, -1, -2), "factor": lambda dq: 3 * dq,
    "rounded": lambda dq: dq * (1 + 1e-7 * np.cos(1e5 * dq)),
}


@pytest.mark.parametrize("name", one_in(2, ON_TOP))
def test_a_relation_on_top_of_a_known_mistake(name):
    routine = ROUTINES["attention"]
    averaged = next(mistake for mistake in routine.mistakes if mistake.name == "softmax over queries")

    def backward(*arrays):
        dq, dk, dv = changed(routine, averaged.changes)(*arrays)
        return ON_TOP[name](dq), dk, dv

    found = diagnosed(backward, routine, draws("attention", range(3)))
    assert set(found.names) == {"softmax over queries", name}
    assert "besides, dq " in found.sentence


def test_the_upstream_is_recognised():
    sine = Routine("sine", lambda dout, x: dout * np.cos(x), ("dout", "x"), ("dx",))
    assert diagnosed(lambda dout, x: dout, sine, draws("tanh", range(3))).mistake == "dx is the upstream gradient, unchanged"


def test_only_the_diagonal_of_the_jacobian():
    cumsum = FUNCTIONS["cumsum"].backward
    routine = Routine("cumsum", lambda dout, x: cumsum(dout, x)[0] + dout, ("dout", "x"), ("dx",))
    found = diagnosed(lambda dout, x: 2 * dout, routine, draws("cumsum", range(3)))
    assert found.names == ("diagonal",) and "only the diagonal of the Jacobian" in found.mistake


def masked_inputs():
    generator = np.random.default_rng(2)
    for shape in ((3, 3), (3, 4), (5, 4), (2, 2)) * 2:
        x, mask = generator.normal(size=shape) * np.where(shape[0] == 5, 30, 1), generator.random(shape) < 0.6
        mask[0, :2] = True, False
        yield dict(dout=generator.normal(size=shape), x=x, mask=mask, ids=generator.permutation(shape[0] - 1))


def odd(a):
    """An unrelated array of the same shape."""
    return np.sin(17 * a) + 0.1 * np.arange(a.size).reshape(a.shape)


PLAIN = Routine("plain", lambda dout, x, mask, ids: dout * x, ("dout", "x", "mask", "ids"), ("dx",))
FACTS = {  # name: (where dx is wrong, what is said)
    "masked": (lambda x, mask, ids: ~mask, "dx is wrong only where mask is False"),
    "not masked": (lambda x, mask, ids: mask, "dx is wrong only where mask is True"),
    "diagonal": (lambda x, mask, ids: np.eye(*x.shape) > 0, "dx is wrong only on its diagonal"),
    "above": (lambda x, mask, ids: np.tri(*x.shape) == 0, "dx is wrong only above its diagonal"),
    "last row": (lambda x, mask, ids: np.arange(len(x))[:, None] == len(x) - 1, "dx is wrong only in its last row"),
    "first column": (lambda x, mask, ids: np.arange(x.shape[1]) == 0, "dx is wrong only in its first column"),
    "negative": (lambda x, mask, ids: x < 0, "dx is wrong only where x is negative"),
    "large": (lambda x, mask, ids: np.abs(x) > 10, "dx is wrong only where x is beyond 10"),
    "on large inputs": (lambda x, mask, ids: np.abs(x).max() > 10, "on 2 of 8 inputs: exactly those with numbers beyond 10"),
    "not square": (lambda x, mask, ids: x.shape[0] != x.shape[1], "on 4 of 8 inputs: exactly those that are not square"),
    "rows that ids lack": (lambda x, mask, ids: np.arange(len(x))[:, None] > ids.max(), "dx is wrong only in its last row"),
    "everywhere": (lambda x, mask, ids: x == x, "dx is off by up to"),
    "one number": (lambda x, mask, ids: (x == x.max()) & (len(x) == 5), "on 2 of 8 inputs: exactly those with numbers beyond 10; dx is off by"),
}
OFF_BY = {  # what is said: wrong numbers for dout * x
    "dx is right up to a factor for all of it, another one for each input": lambda dout, x: dout * x * np.exp(x.sum()),
    "dx is right up to a factor per row": lambda dout, x: dout * x * np.exp(x.sum(-1, keepdims=True)),
    "dx is right up to a factor per column": lambda dout, x: dout * x * np.exp(x.sum(0)),
    "dx, yours minus right, is a single number in each row": lambda dout, x: dout * x + np.exp(x).sum(-1, keepdims=True),
    "dx, yours minus right, is a single number in each column": lambda dout, x: dout * x + np.exp(x).sum(0),
    "dx, yours minus right, is a multiple of x in each row": lambda dout, x: dout * x + x * dout.sum(-1, keepdims=True),
    "dx, yours minus right, is a multiple of dout": lambda dout, x: dout * x + dout * np.cos(x.sum()),
}

INVARIANTS = {  # what is said, if anything: a function, and what is done to its gradients
    "each row of dx should sum to 0; one of yours sums to ": ("softmax", lambda dx: np.sin(3 * dx)),
    "each column of dk should sum to 0; one of yours sums to ": ("full_attention", lambda dq, dk, dv: (dq, np.sin(3 * dk), dv)),
    "each row of dx * x should sum to 0; one of yours sums to ": ("normalize", lambda dx: np.sin(3 * dx)),
    "": ("softmax", lambda dx: np.sin(3 * dx) - np.sin(3 * dx).mean(-1, keepdims=True)),
}


def test_a_sum_that_should_be_zero_is_told():
    def is_told(said, row):
        name, change = row
        routine = dataclasses.replace(ROUTINES[name], mistakes=(), edits=tuple)
        found = diagnosed(lambda *inputs: change(*as_tuple(routine.right(*inputs))), routine, draws(name, range(4)))
        assert not found and ("should sum to 0" in found.sentence) == bool(said) and said in found.sentence, found

    each(INVARIANTS, is_told)


def of_plain(wrong):
    return diagnosed(lambda dout, x, mask, ids: wrong(dout, x, mask, ids), PLAIN, masked_inputs())


def test_unknown_mistakes_are_described():
    def is_described(name, row):
        is_wrong, said = row
        found = of_plain(lambda dout, x, mask, ids: np.where(is_wrong(x, mask, ids), odd(x), dout * x))
        assert not found.is_right and found.names == () and found.mistake is None and not found and said in found.sentence

    each(FACTS, is_described)

    def is_put_simply(said, wrong):
        found = of_plain(lambda dout, x, mask, ids: wrong(dout, x))
        assert not found and said in found.facts and "off by up to" not in found.sentence, found.sentence

    each(OFF_BY, is_put_simply)
    found = of_plain(lambda dout, x, mask, ids: np.where(mask, dout * x + x, np.nan))
    assert not found and "numbers of dx are NaN" in found.sentence
    found = of_plain(lambda dout, x, mask, ids: None if len(x) == 5 else dout * x)
    assert not found and "dx is None" in found.sentence
    found = diagnosed(lambda dout, x, w, b: (dout @ w.T * x[0, 0], x.T @ dout, dout.sum(0)), AFFINE, affine_inputs())
    assert not found and "dx is right up to a factor for all of it" in found.sentence  # which cannot be named


def nonsense(generator, kind, right):
    """A backward that nobody would write: deterministic, but unrelated to the right one."""
    seed = int(generator.integers(2**30))

    def of(a, numbers):
        noise = numbers.normal(size=a.shape)
        return (noise, (numbers.normal(size=(a.size, a.size)) @ a.reshape(-1)).reshape(a.shape), a * (1 + 0.1 * noise),
                a + 1e-3 * noise, np.sin(a) + 0.3 * a, np.linalg.norm(a) * np.tanh(a) + a**2)[kind]

    def backward(*arrays):
        numbers = np.random.default_rng(seed)
        return tuple(g if g is None else of(np.asarray(g, float), numbers) for g in right(*arrays))

    return backward


@pytest.mark.parametrize("name", ["softmax", "cross_entropy", "embedding", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("attention", "layer_norm", "linear"))])
def test_nonsense_is_never_given_a_name(name):
    generator, routine = np.random.default_rng(3), ROUTINES[name]
    for kind in range(6):
        backward = nonsense(generator, kind, changed(routine, {}))
        found = diagnosed(backward, routine, draws(name, generator.integers(1000, size=3)))
        assert not found and found.names == () and found.facts and not found.is_right, found


def test_inputs_of_one_shape_leave_open_which_size_it_is():
    averaged = Known("averaged", "db is the mean over rows", {"over": lambda dout: dout.mean(0)})
    routine = dataclasses.replace(AFFINE, mistakes=(averaged,), right=lambda dout, x, w, b, over=lambda dout: dout.sum(0): (
        dout @ w.T, x.T @ dout, over(dout)))
    wrong = changed(routine, averaged.changes)
    of_one, of_many = (diagnosed(wrong, routine, inputs) for inputs in (list(affine_inputs())[1:2] * 2, affine_inputs()))
    assert not of_one and not of_one.names  # three numbers are too few
    big = [dict(dout=np.eye(8) + i, x=np.eye(8), w=np.eye(8), b=np.ones(8)) for i in range(2)]
    assert "cannot tell which size" in diagnosed(wrong, routine, big).sentence
    assert of_many.names == ("averaged",) and "cannot tell" not in of_many.sentence


def test_few_numbers_are_described_and_not_explained():
    twice = Known("twice", "twice too large", {"factor": 2.0})
    routine = Routine("scaled", lambda dout, x, factor=1.0: factor * dout * x, ("dout", "x"), ("dx",), (twice,))
    for points, is_named in ((1, False), (2, True)):
        inputs = [dict(dout=np.full(2, 1.5 + point), x=np.array([0.3, 0.4 + point])) for point in range(points)]
        found = diagnosed(lambda dout, x: 2 * dout * x, routine, inputs)
        assert bool(found) is is_named and ("twice" in found.sentence) is is_named
    again = [dict(dout=np.full(2, 1.5 + i), x=np.array([0.3, 0.4])) for i in range(4)]
    assert not diagnosed(lambda dout, x: 2 * dout * x, routine, again)  # a new upstream is not a new input


def test_numbers_that_agree_anyway_prove_nothing():
    ones = [dict(dout=item["dout"][..., :1], x=item["x"][..., :1]) for item in draws("softmax", range(3))]
    found = diagnosed(lambda dout, x: 0 * x, ROUTINES["softmax"], ones)  # the softmax of one number
    assert found.is_right


def test_a_known_mistake_that_raises_explains_nothing():
    def refuses(dout, x):
        raise ValueError("not for these shapes")

    known = (Known("refuses", "raises", {"way": refuses}), Known("twice", "twice too large", {"way": lambda d, x: 2 * d}))
    routine = Routine("same", lambda dout, x, way=lambda dout, x: dout: way(dout, x), ("dout", "x"), ("dx",), known)
    inputs = [dict(dout=item["dout"], x=item["x"]) for item in draws("softmax", range(2))]
    assert diagnosed(lambda dout, x: 2 * dout, routine, inputs).names == ("twice",)


def test_evidence_without_numbers_is_ignored():
    routine, points = ROUTINES["softmax"], list(draws("softmax", range(3)))
    backward = changed(routine, {"s": "s = 0 * dout"})
    evidence = [Evidence(point, routine.run(point), given_by(backward, routine, point)) for point in points]
    lacking = Evidence(points[0], evidence[0].right, {})
    assert diagnose_numbers([lacking, *evidence], routine).names == ("the sum over the row is missing",)
    assert not diagnose_numbers([lacking], routine).is_right


class Weights(mg.Function):
    """Softmax under another name, with the sum missing."""

    @staticmethod
    def forward(ctx, scores):
        p = scores.softmax(-1)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, dout):
        (p,) = ctx.saved_tensors
        return p * dout


def tensor(*shape, seed=0):
    return mg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def test_gradcheck_recognises_a_function_by_its_values():
    for shape in (3, 4), (4, 4), (2, 3, 5):
        report = gradcheck_report(Weights.apply, tensor(*shape))
        last = str(report).splitlines()[-1]
        assert last.startswith("  diagnosis: this is softmax: the sum over the row is missing")
        assert report.title == "Weights" and [entry.name for entry in report.inputs] == ["scores"]
    report = gradcheck_report(Weights.apply, tensor(80, 80))  # too large to ask about
    assert not report and str(report).endswith("diagnosis: none at this size: give smaller inputs, of at most 5000 numbers")


class Product(mg.Function):
    """sin(a) @ b, an unknown function, with one gradient transposed and the other zero."""

    @staticmethod
    def forward(ctx, left, right):
        ctx.save_for_backward(left, right)
        return left.sin() @ right

    @staticmethod
    def backward(ctx, dout):
        left, right = ctx.saved_tensors
        return ((dout @ right.T) * left.cos()).T, left.sin().T @ dout * 0


class Two(mg.Function):
    """Softmax and logsumexp, with a backward of both."""

    @staticmethod
    def forward(ctx, x, backward):
        ctx.backward, p = backward, x.softmax(-1)
        ctx.save_for_backward(p)
        return p, x.logsumexp(-1)

    @staticmethod
    def backward(ctx, dp, dsum):
        (p,) = ctx.saved_tensors
        return ctx.backward(p, dp, dsum.unsqueeze(-1)), None


def rowsum(x):
    return x.sum(-1, keepdim=True)


TWO = {  # a backward of softmax and logsumexp, and its diagnosis
    "in the first": (lambda p, dp, dsum: p * (dp + dsum), "output 0 is softmax: the sum over the row is missing"),
    "in the second": (lambda p, dp, dsum: p * (dp - rowsum(p * dp) - dsum), "output 1 is logsumexp: dx has the wrong sign"),
    "the second is lost": (lambda p, dp, dsum: p * (dp - rowsum(p * dp)), "output 1 is logsumexp: dx is zero everywhere"),
    "unknown": (lambda p, dp, dsum: p * (dp - rowsum(p * dp)) + (3 * p).sin() * dsum, "output 1: its gradient is wrong"),
}


def test_a_mistake_is_named_in_one_of_two_outputs():
    def is_named(name, row):
        backward, says = row
        report = gradcheck_report(lambda x: Two.apply(x, backward), tensor(3, 4))
        assert report.verdict == "fail" and f"  diagnosis: {says}" in str(report), report

    each(TWO, is_named)
    report = gradcheck_report(lambda left, right: (left.exp(), Product.apply(left, right)), (tensor(3, 3), tensor(3, 3, seed=1)))
    assert "diagnosis: output 1: dleft is transposed" in str(report), report


def test_gradcheck_describes_a_function_that_is_not_known():
    report = gradcheck_report(Product.apply, (tensor(3, 3), tensor(3, 3, seed=1)))
    assert report.diagnosis.names == ("transposed",) and "diagnosis: dleft is transposed" in str(report)
    assert "backward / differences is 0 everywhere" in str(report)


class Chosen(mg.Function):
    """A function of x, with twice its gradient."""

    @staticmethod
    def forward(ctx, x, function):
        ctx.save_for_backward(x)
        ctx.function = function
        return function(x)

    @staticmethod
    def backward(ctx, dout):
        return 2 * mg.vjp(ctx.function, ctx.saved_tensors[0], dout)[1], None


def standardised(x):
    return (x - mean(x)) / np.sqrt(x.var(-1, keepdims=True) + 1e-8)


MENDED = {  # what is said: a forward in NumPy that keeps its inputs, a wrong backward, and the inputs' shapes
    "dx is dout @ w, and should be dout @ w.T": (
        lambda x, w, b: x @ w + b, lambda dout, x, w, b: (dout @ w, x.T @ dout, dout.sum(0)), [(5, 3), (3, 3), (3,)]),
    "this is matmul: dw is transposed": (
        lambda w, x: x @ w, lambda dout, w, x: (dout.T @ x, dout @ w.T), [(3, 3), (5, 3)]),
    "this is matmul: a transpose is missing: w replaces w.T": (
        lambda x, w: x @ w, lambda dout, x, w: (dout @ w, x.T @ dout), [(5, 3), (3, 3)]),
    "this is linear: averaged instead of added up: ": (
        lambda b, w, x: x @ w.T + b, lambda dout, b, w, x: (dout.sum(0), dout.T @ x / 5, dout @ w), [(4,), (4, 3), (5, 3)]),
    "this is layer_norm: the path through the mean is missing": (
        lambda g, b, x: standardised(x) * g + b,
        lambda dout, g, b, x: ((dout * standardised(x)).sum(0), dout.sum(0), (
            dout * g - standardised(x) * mean(dout * g * standardised(x))) / np.sqrt(x.var(-1, keepdims=True) + 1e-8)),
        [(4,), (4,), (6, 4)]),
    "this is sin: cos is left out: x replaces cos(x)": (lambda x: np.sin(x), lambda dout, x: dout * x, [(3, 4)]),
    "this is product: dx is the upstream gradient, unchanged": (lambda x, b: x * b, lambda dout, x, b: (dout, (dout * x).sum(0)), [(3, 4), (4,)]),
    "dx is right if multiplied by gamma": (
        lambda x, gamma: x**3 * gamma, lambda dout, x, gamma: (3 * x**2 * dout, (dout * x**3).sum(0)), [(3, 4), (4,)]),
    "dx is right if divided by output[..., None]": (
        lambda x: np.sqrt((x**4).sum(-1)), lambda dout, x: dout[:, None] * 2 * x**3, [(3, 4)]),
    "dx is right if its mean over axis 0 is subtracted": (
        lambda x: (x - x.mean(0)) ** 3, lambda dout, x: 3 * (x - x.mean(0)) ** 2 * dout, [(6, 4)]),
    "dw is (dout.T @ x).reshape(3, 5), and should be x.T @ dout": (
        lambda x, w: x @ w + 1, lambda dout, x, w: (dout @ w.T, (dout.T @ x).reshape(w.shape)), [(4, 3), (3, 5)]),
    "this is sin: dx has the right numbers in another order": (
        lambda x: np.sin(x), lambda dout, x: (dout * np.cos(x)).T.reshape(x.shape), [(3, 4)]),
    "dw is right if multiplied by gain": (  # of a Jacobian that is too large for one backward a row
        lambda x, w, gain: np.sin(x @ (w * gain)), lambda dout, x, w, gain: (
            dout * np.cos(x @ (w * gain)) @ (w * gain).T, x.T @ (dout * np.cos(x @ (w * gain))),
            (x.T @ (dout * np.cos(x @ (w * gain))) * w).sum(0)), [(30, 3), (3, 5), (5,)]),
    "dx is right if multiplied by keep": (
        lambda x, keep: x**3 * keep, lambda dout, x, keep: 3 * x**2 * dout, [(3, 4), np.eye(3, 4) > 0]),
    "dgamma is (dout * x).sum(0), and should be (dout * x * x**2).sum(0)": (
        lambda x, gamma: x**3 * gamma, lambda dout, x, gamma: (3 * x**2 * dout * gamma, (dout * x).sum(0)), [(3, 4), (4,)]),
}


def test_what_would_be_right_is_said_in_the_names_of_the_inputs():
    def is_said(said, row):
        forward, backward, shapes = row
        generator = np.random.default_rng(0)
        inputs = [shape if isinstance(shape, np.ndarray) else generator.normal(size=shape) for shape in shapes]
        keeping = functools.wraps(forward)(lambda *x: (forward(*x), x))
        report = gradcheck_report((keeping, lambda dout, x: backward(dout, *x)), inputs)
        assert report.verdict == "fail" and f"diagnosis: {said}" in str(report), report

    each(MENDED, is_said)


CHOSEN_BY_PLACE = {  # what a function would be if it chose by size: the function, which does not, and numbers of one order
    "max": (lambda x: x[:, 1], [[1.0, 3.0, 2.0], [0.0, 2.0, 1.0]]),
    "relu": (lambda x: x * mg.tensor([1.0, 0.0, 1.0], dtype="float64"), [1.0, -2.0, 3.0]),
    "abs": (lambda x: x * mg.tensor([1.0, -1.0, 1.0], dtype="float64"), [1.0, -2.0, 3.0]),
}


def test_what_chooses_by_place_is_not_taken_for_what_chooses_by_size():
    def is_left_open(name, row):
        function, numbers = row
        report = gradcheck_report(lambda x: Chosen.apply(x, function), mg.tensor(numbers, dtype="float64", requires_grad=True))
        assert report.verdict == "fail" and "this is" not in str(report), report

    each(CHOSEN_BY_PLACE, is_left_open)


def test_known_mistakes_are_named_in_gradchecks_report():
    for name in ("layer_norm: weight at the end", "gelu: tanh's", "attention: rowsum of v", "softmax: sigmoid",
                 "linear: dbias of the last axis"):
        report = gradcheck_report(MUTANTS[name], MUTANTS[name].draw(0))
        own = dict(zip(MUTANTS[name].arguments, [entry.name for entry in report.inputs]))
        assert renamed(MUTANTS[name].mistake, own) in str(report).splitlines()[-1]
    report = gradcheck_report(MUTANTS["square: remembers"], MUTANTS["square: remembers"].draw(0))
    assert report.verdict == "fail" and report.diagnosis is None  # its numbers are others each time
