"""Do the tests of the page notice when it does not work? Each row breaks one thing on it, and the tests named are to fail.

    python tests/break_page.py [WORD]     # only rows with this word

It takes some 20 seconds a row, and names what stayed green; the exit code is 1 if anything did.
"""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
TESTS = ROOT / "tests/minigrad/tracing/test_page.py"
BREAK = "MINIGRAD_BREAK_PAGE"  # (file, old, new) as JSON, for the process that runs the tests

ROWS = {  # what is broken: (file, old, new, the tests that are to notice)
    "matrix product: an index exchanged": (
        "ops.js", "n => c.x(1, [...leading, j, n]));", "n => c.x(1, [...leading, n, j]));", "after_edits"),
    "softmax: no row sum": (
        "ops.js", "m.sub(c.dout(index), rowsum(at(index, 0)))", "c.dout(index)", "after_edits"),
    "softmax: the largest not taken out": ("ops.js", "m.sub(c.x(0, i), largest(at(i, 0)))", "c.x(0, i)", "every_op"),
    "where: both get the gradient": (
        "ops.js", '"condition", index) ? zero(m) : dout,', '"condition", index) ? dout : dout,', "every_op"),
    "where broadcast, the last gradient stays": (
        "interpreter.js", "data[ravel(shape, index)] += rule", "data[ravel(shape, index)] = rule", "every_op"),
    "only the last use's gradient": ("interpreter.js", "total[k] += data[k]", "total[k] = data[k]", "block"),
    "erf of large x": ("ops.js", "Math.exp(-x * x) / SQRT_PI / below", "Math.exp(-x * x) / SQRT_PI / x", "every_op"),
    "an index of negative steps": ("ops.js", "i += step) found", "i += Math.abs(step)) found", "every_op"),
    "another rule is used all the same": ("interpreter.js", "this.differs(step)", "null", "other_numbers"),
    "what is infinite in float32 is another rule": ("interpreter.js", "isExact ? x => x : Math.fround", "x => x", "finite"),
    "what leads through an unknown op can be edited": (
        "interpreter.js", "if (this.isClosed) return null;", "return null;", "does_not_know"),
    "never the trace's own numbers": (
        "page.js", "const isAsTraced = () => ", "const isAsTraced = () => false && ", "traces_own"),
    "switches do nothing": ("page.js", "return s.choices[state.switches[i]].sets;", "return [];", "switches"),
    "a number is cut off": ("page.js", "exact = String(x)", "exact = String(Number(x.toPrecision(8)))", "engines"),
    "a number is shown rounded down": (
        "formulas.js", "return x.toFixed(", "return (x - 0.0005).toFixed(", "every_number"),
    "a small number looks like 0": ("formulas.js", "size < 0.001", "size < 1e-9", "every_number"),
    "terms in another order than computed": (
        "formulas.js", "sub({parts: [a, b]}) { return [...this.nodes(a)", "sub({parts: [b, a]}) { return [...this.nodes(a)",
        "pointing"),
    "joined steps are not written out": (
        "page.js", 'node.is === "source" && joined', 'node.is === "none" && joined', "joined"),
    "terms read another number": (
        "ops.js", "const within = (shape, index) => unravel(shape, ravel(shape, index))",
        "const within = (shape, index) => shape.map(() => 0)", "pointing"),
    "terms without the sums of broadcasting": (
        "interpreter.js", "from.length === 1 ? from[0] :", "from.length ? from[0] :", "adds_up or every_op"),
    "mistakes: a mean of one less": ("mistakes.js", "c.m.div(c.m.sum(n, sum), c.m.number(n))", "c.m.div(c.m.sum(n, sum), "
                                     "c.m.number(n - 1))", "each_mistake"),
    "mistakes: the mask recomputed in forward too": (
        "page.js", "pass = computation.backward({...right}, mistake, of);", "pass = computation.backward(of, mistake, of);",
        "each_mistake"),
    "mistakes: all cells marked": ("page.js", "if (!isSame) places.add(i)", "places.add(i)", "each_mistake"),
    "mistakes: by colour only": ("page.css", 'content: "≠" / ""', 'content: "" / ""', "without_colour"),
    "NaN can be typed": ("page.js", ": NaN;\nconst snapshot", ": Number(text);\nconst snapshot", "no_number"),
    "what was typed stays though it is no number": ("page.js", "    takeBack(cell);\n    say", "    say", "no_number"),
    "undo forgets": ("page.js", "  const before = state.past.pop();", "  const before = snapshot();", "undo"),
    "one-sided differences": (
        "page.js", "(at(values[place] + h) - at(values[place] - h)) / (2 * h)", "(at(values[place] + h) - at(values[place])) / h",
        "finite_difference"),
    "steps read what they do not": (
        "interpreter.js", "for (const name of writes.keys()) reads.delete(name);", "note(reads, steps[0].output.name, 'value');",
        "steps_go"),
    "a matrix that Tab passes by": ("page.js", "if (this.cells.length) this.cells[0].tabIndex = 0;", "", "keyboard"),
    "hovering forgets the number chosen": ("page.js", "if (chosen.grid) point(chosen);", "", "chosen"),
    "down goes up": ("page.js", "ArrowDown: columns}", "ArrowDown: -columns}", "keyboard"),
    "text as markup": ("page.js", 'byId("title").textContent =', 'byId("title").innerHTML =', "text_is_text"),
    "attributes of formulas kept": ("formulas.js", "if (MATHML_ATTRIBUTES.has(name)) ", "", "text_is_text"),
    "a request": ("page.js", "drawAll();\n", 'drawAll();\nnew Image().src = "http://localhost:9/";\n', "every_number"),
    "grey too light": ("page.css", "--soft: #566074", "--soft: #b0b6c4", "accessible"),
    "a slider without a name": ("page.html", ' aria-label="Step"', "", "accessible"),
    "wide matrices widen the page": ("page.css", ".scroll { overflow-x: auto;", ".scroll { overflow-x: visible;", "accessible"),
}


class Broken:
    """A pytest plugin: the page's file with the row's words in it."""

    def pytest_configure(self) -> None:
        from minigrad.tracing import page

        file, old, new = json.loads(os.environ[BREAK])
        whole = page._part
        if old not in whole(file):
            pytest.exit(f"{file} has no {old!r}", returncode=99)
        page._part = lambda name: whole(name).replace(old, new) if name == file else whole(name)


def stays_green(file: str, old: str, new: str, tests: str) -> str:
    """What is to be said of a row; empty if its tests noticed."""
    run = subprocess.run([sys.executable, __file__, "--", tests], capture_output=True, text=True, check=False,
                         env={**os.environ, BREAK: json.dumps([file, old, new])}, cwd=ROOT)
    return {0: "stayed green", 1: ""}.get(run.returncode, f"could not be tried: {run.stdout[-300:]}")


if __name__ == "__main__":
    if BREAK in os.environ:
        sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
        sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", str(TESTS), "-k", sys.argv[2]], plugins=[Broken()]))
    rows = {name: row for name, row in ROWS.items() if not sys.argv[1:] or sys.argv[1] in name}
    green = 0
    for name, row in rows.items():
        said = stays_green(*row)
        green += bool(said)
        print(f"{said or 'noticed'}: {name}", flush=True)
    print(f"{len(rows) - green} of {len(rows)} noticed")
    sys.exit(green > 0)
