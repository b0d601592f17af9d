"""Grading a class: `minigrad exercises grade FOLDER`.

    submissions.py    which files in a folder belong to whom, and to which exercise
    judges.py         processes that judge one submission at a time
    judge_process.py  what runs in one of them
    kept.py           results on disk, so that an interrupted run can resume
    points.py         what an answer is worth
    rows.py           a row of the table, and the mistakes of a class by frequency
    tables.py         rows as text, CSV, CSV for Canvas and JSON
    gradescope.py     rows as Gradescope's results.json
    page/             rows as a page
    command.py        the command
"""
