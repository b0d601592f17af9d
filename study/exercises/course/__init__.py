"""The course, in the order in which it is meant to be worked through."""
from study.exercises.course import (
    attention, block, elementwise, finding, logsumexp, lookup, norms, products, rows, training,
)
from study.exercises.exercise import Exercise

TOPICS: dict[str, list[Exercise]] = {
    "Products": products.EXERCISES,
    "Number by number": elementwise.EXERCISES,
    "Row by row": [*logsumexp.EXERCISES, *rows.EXERCISES],
    "Rows of a table": lookup.EXERCISES,
    "Norms": norms.EXERCISES,
    "Attention": attention.EXERCISES,
    "Put together": block.EXERCISES,
    "Training, and other derivatives": training.EXERCISES,
    "To find": finding.EXERCISES,
}
COURSE: dict[str, Exercise] = {exercise.name: exercise for exercises in TOPICS.values() for exercise in exercises}
