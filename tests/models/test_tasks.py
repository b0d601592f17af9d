"""Tasks: answers against slow, obvious references, symbol by symbol; examples, lengths, and texts of token ids."""
import dataclasses

import numpy as np

from models.encoder_decoder import PAD, START, STOP
from models.task import FIRST, inputs_and_targets
from models.tasks import ADJECTIVES, BAD, GOOD, IMAGE_SIZE, MONEY, NOUNS, RIVER, TASKS


def add(words: list[str]) -> list[str]:
    plus = words.index("+")
    total = int("".join(words[:plus])) + int("".join(words[plus + 1:]))
    return list(str(total).zfill(plus + 1))


def parity(words: list[str]) -> list[str]:
    return [str(words[:i + 1].count("1") % 2) for i in range(len(words))]


def translate(words: list[str]) -> list[str]:
    """Article and noun become one word, the adjective between them follows, and the past tense becomes a word."""
    answer = []
    while words:
        if words[0] != "the":
            answer += ["did", f"{words.pop(0)}-i"]
            continue
        words.pop(0)
        adjective = words.pop(0) if words[0] in ADJECTIVES else None
        assert words[0] in NOUNS
        answer.append(f"{words.pop(0)}-la")
        if adjective:
            answer.append(f"{adjective}-o")
    return answer


def what_followed(words: list[str]) -> str:
    return words[words.index(words[-1]) + 1]


def judge(words: list[str]) -> str:
    (place,) = [i for i, word in enumerate(words) if word in GOOD + BAD]
    is_good = words[place] in GOOD
    if words[place - 1] == "not":
        is_good = not is_good
    return "good" if is_good else "bad"


def which_bank(words: list[str]) -> str:
    assert words[-1] == "bank"
    (hint,) = [word for word in words if word in RIVER + MONEY]
    return "river" if hint in RIVER else "money"


SEQUENCES = {
    "copy": lambda words: words,
    "reverse": lambda words: words[::-1],
    "sort": sorted,
    "addition": add,
    "parity": parity,
    "translation": translate,
}
CLASSES = {"induction": what_followed, "sentiment": judge, "bank": which_bank}
SIZES = {  # of source and target, by length
    "copy": lambda n: (n, n), "reverse": lambda n: (n, n), "sort": lambda n: (n, n), "parity": lambda n: (n, n),
    "addition": lambda n: (2 * n + 1, n + 1), "translation": lambda n: ({1: 5, 2: 6, 3: 7}[n], {1: 4, 2: 5, 3: 6}[n]),
    "induction": lambda n: (2 * n + 1,), "sentiment": lambda n: (n,), "bank": lambda n: (n,),
}


def all_lengths(name: str) -> range:
    shortest, longest = TASKS[name].lengths
    return range(shortest, longest + 1)


def test_every_task_has_a_reference():
    assert TASKS.keys() == SEQUENCES.keys() | CLASSES.keys() | {"stripes"}
    assert all(task.kind == ("sequence" if name in SEQUENCES else "class") for name, task in TASKS.items())


def test_answers_match_the_references(random):
    for name, answer_of in (SEQUENCES | CLASSES).items():
        task = TASKS[name]
        for length in all_lengths(name):
            source, target = task.make(random, 30, length)
            assert (source.shape[1], *target.shape[1:]) == SIZES[name](length), name
            for ids, answer in zip(source, target):
                said = task.classes[answer] if task.classes else task.decode(answer).split()
                assert said == answer_of(task.decode(ids).split()), name


def pattern(kind: str, shift: int) -> list[list[bool]]:
    """Stripes, pixel by pixel; rows are counted from above."""
    along = {"lie": lambda row, column: row, "stand": lambda row, column: column,
             "rise": lambda row, column: row + column, "fall": lambda row, column: row - column}[kind]
    return [[(along(row, column) + shift) % 4 < 2 for column in range(IMAGE_SIZE)] for row in range(IMAGE_SIZE)]


def test_stripes(random):
    task = TASKS["stripes"]
    images, labels = task.make(random, 40, 1)
    assert images.shape == (40, 1, IMAGE_SIZE, IMAGE_SIZE) and images.dtype == np.float32
    for image, label in zip(images, labels):
        distances = {kind: min(np.abs(image[0] - pattern(kind, shift)).sum() for shift in range(4))
                     for kind in task.classes}
        assert task.classes[label] == min(distances, key=distances.get)
    noise = [min((image[0] - pattern(task.classes[label], shift) for shift in range(4)), key=lambda d: np.abs(d).sum())
             for image, label in zip(images, labels)]
    assert 0.25 < np.std(noise) < 0.35
    shifts = {int(np.argmin([np.abs(image[0] - pattern(task.classes[label], shift)).sum() for shift in range(4)]))
              for image, label in zip(images, labels)}
    assert shifts == set(range(4)) and set(labels) == set(range(4))


def test_examples_are_symbols_and_the_same_for_the_same_seed():
    for name in TASKS.keys() - {"stripes"}:
        task = TASKS[name]
        (source, target), again = (task.make(np.random.default_rng(3), 200, task.lengths[1]) for _ in range(2))
        np.testing.assert_array_equal(source, again[0])
        np.testing.assert_array_equal(target, again[1])
        assert source.min() >= FIRST and source.max() < task.vocabulary_size
        if task.kind == "sequence":
            assert target.min() >= FIRST and target.max() < task.vocabulary_size
        else:
            counts = np.bincount(target, minlength=len(task.classes))
            assert counts.min() > 0.5 * counts.mean() / len(task.classes) ** 0.5


def test_lengths_reach_both_ends(random):
    for name, task in TASKS.items():
        lengths = []
        noting = dataclasses.replace(task, make=lambda generator, count, n, task=task, lengths=lengths: (
            lengths.append(n), task.make(generator, count, n))[1])
        for _ in range(200):
            noting.batch(random, 1, 32)
        assert set(lengths) == set(all_lengths(name))


def test_inputs_and_targets_of_padded_rows():
    inputs, targets = inputs_and_targets(np.array([[7, 8, 9], [7, PAD, PAD], [PAD, PAD, PAD]]))
    assert inputs.tolist() == [[START, 7, 8, 9], [START, 7, PAD, PAD], [START, PAD, PAD, PAD]]
    assert targets.tolist() == [[7, 8, 9, STOP], [7, STOP, PAD, PAD], [STOP, PAD, PAD, PAD]]


def test_decoded_text_ends_at_stop_and_has_no_padding():
    task = TASKS["copy"]
    assert task.decode([START, FIRST, FIRST + 1, PAD, FIRST + 2, STOP, FIRST]) == "a b c"
    assert task.decode([STOP]) == task.decode([]) == ""
