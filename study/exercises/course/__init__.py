"""The course, in the order in which it is meant to be worked through."""
from study.exercises.course import attention, norms, pointwise, products, rows
from study.exercises.exercise import Exercise

TOPICS: dict[str, list[Exercise]] = {
    "Number by number": pointwise.EXERCISES,
    "Products": products.EXERCISES,
    "Row by row": rows.EXERCISES,
    "Norms": norms.EXERCISES,
    "Attention": attention.EXERCISES,
}
COURSE: dict[str, Exercise] = {exercise.name: exercise for exercises in TOPICS.values() for exercise in exercises}
