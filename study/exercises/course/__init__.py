"""The course, in the order in which it is meant to be worked through."""
from study.exercises.course import block, finding, rows, training
from study.exercises.exercise import Exercise

TOPICS: dict[str, list[Exercise]] = {
    "Row by row": rows.EXERCISES,
    "Put together": block.EXERCISES,
    "Training, and other derivatives": training.EXERCISES,
    "To find": finding.EXERCISES,
}
COURSE: dict[str, Exercise] = {exercise.name: exercise for exercises in TOPICS.values() for exercise in exercises}
