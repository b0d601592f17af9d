"""A class is graded: `minigrad exercises grade FOLDER`.

    submissions.py    which files of a folder are whose, and for which exercise
    judges.py         processes that judge, a submission each at a time
    judge_process.py  what runs in one of them
    kept.py           results on the disk, so that a run that was killed goes on where it was
    rows.py           a row of the table, its points, and the mistakes of a class by frequency
    tables.py         rows as text, CSV and JSON
    gradescope.py     rows as Gradescope's results.json
    page/             rows as a page
    command.py        the command
"""
