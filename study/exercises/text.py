"""An exercise in words: its statement, its starter file, its example."""
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from study.exercises.exercise import Exercise, Inputs
from study.exercises.report import indented, numbers

WIDTH = 100
STEPS = ("easy", "straightforward", "takes some thought", "hard", "a small project")  # what the difficulty means


def title(exercise: Exercise) -> str:
    return f"{exercise.title} ({exercise.difficulty} of 5: {STEPS[exercise.difficulty - 1]})"


def statement(exercise: Exercise) -> str:
    """What is given, and what to write."""
    parts = [title(exercise), filled(exercise.statement), textwrap.indent(exercise.formula, "    "),
             "\n".join(table_of_arguments(exercise))]
    if exercise.explained_in:
        parts.append(f"Explained in {exercise.explained_in}.")
    if exercise.beyond:
        parts.insert(2, "Keep it safe from overflow: numbers may be large.")
    return "\n\n".join(parts)


def handout(exercise: Exercise, more: Sequence[str] = ()) -> str:
    """The statement as Markdown, which it is, and what to do."""
    task = (f"Write `{exercise.signature}` in `{exercise.name}.py`. "
            f"`minigrad exercises start {exercise.file or exercise.name}` writes a file to begin with, and "
            f"`{check_command(exercise)}` says what is wrong.")
    return "\n\n".join([f"## {statement(exercise)}", task, *more])


def check_command(exercise: Exercise) -> str:
    return f"minigrad exercises check {exercise.name}.py" + (f" --exercise {exercise.file}" if exercise.file else "")


def filled(text: str) -> str:
    """The text, refilled. Blank lines separate paragraphs, indented paragraphs stay as they are."""
    parts = textwrap.dedent(text).strip().split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else textwrap.fill(" ".join(part.split()), WIDTH) for part in parts)


def table_of_arguments(exercise: Exercise) -> Iterator[str]:
    """A line for each argument, and one for the result: name, shape, description."""
    rows = [(name, shape_of(argument.shape), argument.about) for name, argument in exercise.arguments.items()]
    if exercise.forward is not None:
        rows.insert(0, ("dout", "as out", "the upstream gradient, of the loss with respect to out"))
    rows.append(("returns", ", ".join(exercise.routine.results), returned(exercise)))
    name, shape = (max(len(row[i]) for row in rows) for i in (0, 1))
    for row in rows:
        head = f"    {row[0]:{name}}  {row[1]:{shape}}  "
        yield from textwrap.wrap(row[2], WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]


def shape_of(letters: str) -> str:
    """"B T D" as "(B, T, D)"; "a function" as it is."""
    if letters.startswith("a "):
        return letters
    parts = letters.split()
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})" if parts else "a number"


def returned(exercise: Exercise) -> str:
    if exercise.forward is None:
        return ""
    one = len(exercise.routine.results) == 1
    return "in the shape of its argument" if one else "a tuple, each in the shape of its argument"


def starter(exercise: Exercise) -> str:
    """A file to start from. It runs, and prints its result; a comment shows the right one."""
    body = exercise.stub or "\n".join(f"{name} = np.zeros_like({name.removeprefix('d')})  # your formula"
                                      for name in exercise.routine.results)
    lines = [f'"""{statement(exercise)}', "", f"Check it with:  {check_command(exercise)}", '"""',
             "import numpy as np", "", "",
             f"def {exercise.signature}:", textwrap.indent(textwrap.dedent(body), "    "),
             f"    return {', '.join(exercise.routine.results)}", "", "",
             'if __name__ == "__main__":  # an example']
    if exercise.demo:
        return "\n".join([*lines, textwrap.indent(textwrap.dedent(exercise.demo).strip(), "    ")]) + "\n"
    inputs, right = example(exercise)
    lines += [f"    {name} = {literal(value, len(name) + 10)}" for name, value in inputs.items()]
    lines.append(f"    print({exercise.function_name}({', '.join(inputs)}))")
    lines.append("    # The right result:")
    lines += [f"    # {line}" for name, value in right.items() for line in indented(f"{name} = ", numbers(value))]
    return "\n".join(lines) + "\n"


def example(exercise: Exercise) -> tuple[Inputs, dict[str, np.ndarray]]:
    """Numbers with one decimal, always the same for an exercise, and the right results."""
    for seed in range(1, 20):
        generator = np.random.default_rng(seed)
        inputs = exercise.example() if exercise.example else exercise.draw(generator, example_sizes)
        inputs = {name: np.round(value, 1) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
                  for name, value in inputs.items()}
        if exercise.is_fit(inputs):
            break
    return inputs, exercise.right(inputs)


def example_sizes(generator: np.random.Generator, count: int) -> list[int]:
    """2, 3, 2, 3 ..."""
    return [2 + k % 2 for k in range(count)]


def literal(value, indent: int) -> str:
    """The value as Python source."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    return "np." + np.array_repr(value, max_line_width=WIDTH).replace("\n", "\n" + " " * indent)
