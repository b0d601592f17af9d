"""The process in which a submission runs: `python study/exercises/worker`, started by `study.exercises.sandbox`.

It imports only NumPy and the standard library. The judge uses `wire` and `returned` as well.
"""
