"""The course, in the order in which to work through it."""
from study.exercises.course import (
    attention, block, elementwise, finding, logsumexp, lookup, norms, products, rows, training,
    writing,
)
from study.exercises.exercise import Exercise

TOPICS: dict[str, list[Exercise]] = {
    "Products": products.EXERCISES,
    "Elementwise functions": elementwise.EXERCISES,
    "Row by row": [*logsumexp.EXERCISES, *rows.EXERCISES],
    "Lookup": lookup.EXERCISES,
    "Norms": norms.EXERCISES,
    "Attention": attention.EXERCISES,
    "Putting it together": block.EXERCISES,
    "Training, and other derivatives": training.EXERCISES,
    "Finding mistakes": finding.EXERCISES,
    "A model writes": writing.EXERCISES,
}
COURSE: dict[str, Exercise] = {exercise.name: exercise for exercises in TOPICS.values() for exercise in exercises}
