"""The course, in the order in which it is meant to be worked through."""
from study.exercises.course import rows
from study.exercises.exercise import Exercise

TOPICS = (rows,)
COURSE: dict[str, Exercise] = {exercise.name: exercise for topic in TOPICS for exercise in topic.EXERCISES}
