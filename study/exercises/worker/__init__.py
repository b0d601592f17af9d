"""What runs in the process of a submission: `python study/exercises/worker`, started by `study.exercises.sandbox`.

It imports NumPy and the standard library only. The judge's side uses `wire` and `returned`, too.
"""
