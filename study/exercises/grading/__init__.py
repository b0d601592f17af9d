"""Grading a class: `minigrad exercises grade FOLDER`.

    files.py          the files in a folder and in zips, and what is wrong with them
    submissions.py    which of them belong to whom, and to which exercise
    judging.py        a pool of processes that judge one submission at a time
    rows.py           a row of the table, and the mistakes of a class by frequency
    tables.py         rows as text, CSV, CSV for Canvas and JSON
    gradescope.py     rows as Gradescope's results.json
    page/             rows as a page
    command.py        the command
"""
