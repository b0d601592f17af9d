"""study: what transformers teach, on top of `models`. `study.notes` holds the lecture notes to their word, `study.page`
puts attention's backward on a page, `study.exercises` judges what students write, `study.mistakes` knows their mistakes.
"""
