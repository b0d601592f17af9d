"""Sabotages of the judge of exercises, its report, and the command."""
from sabotage.edit import edits

JUDGE = ("tests/study/exercises/test_judge.py",)
COMMAND = ("tests/study/exercises/test_command.py",)

SABOTAGES = [
    *edits(JUDGE, "study.exercises.judge", {
        "judge: right if one trial is": ("judge", "if all(trial.is_right", "if any(trial.is_right"),
        "judge: an error on one input is one on all": ("judge", 'all(trial.answer.kind == "raised"', 'any(trial.answer.kind == "raised"'),
        "judge: the seed is forgotten": ("judge", "exercise.inputs(seed)", "exercise.inputs(0)"),
        "judge: what is kept is not asked for": ("gives_the_same", "first, second = trial.answer.results, again.answer.results", "return True"),
        "judge: not asked again at once": ("judge", "if len(trials) <= REPEATED", "if False"),
        "judge: not asked again at the end": ("judge", "for trial in trials[:REPEATED]]", "for trial in ()]"),
        "judge: who ends when asked again keeps something": ("judge", "if again.answer.kind in ENDS]", "if False]"),
        "judge: sums in another order are another answer": ("gives_the_same", "not wrong_elements(a, b).any()", "same_array(a, b)"),
        "judge: what raises at times is not told": ("raised_at_times", "if not raised", "if True"),
        "judge: stacks come first": ("report_on_wrong", "diagnosed(exercise, usual)", "diagnosed(exercise, trials)"),
        "judge: stacks say nothing": ("report_on_wrong", "if len(usual) < len(trials):", "if False:"),
        "judge: part of an explanation is one": ("report_on_wrong", "of_all.is_whole and", ""),
        "judge: nothing is said": ("report_on_wrong", "else (UNKNOWN,)", "else ()"),
        "judge: a list in a tuple is an array": ("faults_of", "if words not in EXPECTED", "if False"),
        "judge: wrong results are right": ("wrong_elements", "return ~(", "return False & ("),
        "judge: another shape is broadcast": ("wrong_elements", "given.shape != right.shape or ", ""),
        "judge: NaN is right": ("wrong_elements", "~((np.abs(given - right) <= ROUNDING * largest + 1e-3 * ROUNDING)",
                                "((np.abs(given - right) > ROUNDING * largest + 1e-3 * ROUNDING)"),
        "judge: float32's digits are enough": ("wrong_elements", "ROUNDING * largest", "1e-5 * largest"),
        "judge: a list is an array": ("faults_of", 'not in ("array", "tuple")', 'not in ("array", "tuple", "list")'),
        "judge: return may be missing": ("faults_of", 'answer.container == "NoneType"', "False"),
        "judge: any number of results": ("faults_of", "elif len(answer.results) != n", "elif False"),
        "judge: float32 is float64": ("faults_of", "given.dtype != np.float64", "False"),
        "judge: arguments may be written to": ("faults_of", "not same_array(before, after)", "False"),
        "judge: no remark": ("remarks", "if not trial.is_right", "if False"),
        "judge: every answer gets the remark": ("remarks", "if not trial.is_right", "if True"),
        "judge: what is not written yet raises": ("stopped", "if message.startswith", "if not message.startswith"),
        "judge: an error without its line": ("stopped", "if answer.place", "if False"),
    }),
    *edits(JUDGE, "study.exercises.answer", {
        "answer: the line is NumPy's": ("Direct.call", "([frame for frame in frames if frame.filename == file] or frames)[-1]", "frames[0]"),
        "answer: arguments are the caller's own": ("Direct.call", "copy_of(arguments)", "arguments"),
    }),
    *edits(JUDGE, "study.exercises.worker.returned", {
        "answer: a tuple is an array": ("unwrap", "isinstance(found, tuple)", "False"),
    }),
    *edits(JUDGE, "study.exercises.report", {
        "report: numbers are not looked at": ("Trial.is_right", "not any(off.any()", "not all(off.any() and False"),
        "report: faults are not looked at": ("Trial.is_right", "not self.faults and ", ""),
        "report: the largest for the smallest": ("Report.counterexample", "trial.size,", "-trial.size,"),
        "report: what shows little": ("Report.counterexample", "trial.shows_little, ", ""),
        "report: arrays that look alike": ("digits_between", 'digits_that_differ(given.flat[at], right.flat[at], "fe")', "DIGITS"),
        "report: no numbers": ("Report.shown", "values |= {", "values = values or {"),
        "report: not where": ("Report.sentence", "self.counterexample.first_difference()", "''"),
        "report: two numbers that look alike": ("digits_that_differ", "if all(", "if True or all("),
        "report: html without the text": ("Report._repr_html_", "repr(self)", "''"),
    }),
    *edits(JUDGE, "study.exercises.exercise", {
        "exercise: no zeros": ("Exercise.with_zeros", "< 0.2", "< 0.0"),
        "exercise: no large upstream": ("Exercise.with_zeros", "100 * found", "1 * found"),
        "exercise: no larger sizes": ("Exercise.inputs", "self.draw(generator, LARGER)", "self.draw(generator, PLANS[0])"),
        "exercise: no suggestion": ("named", "if nearest", "if False"),
        "exercise: the function's name is no name": ("named", 'name.removesuffix("_backward")', "name"),
    }),
    *edits(COMMAND, "study.exercises.command", {
        "command: the list forgets what is done": ("show_list", '"done" if done', '"" if done'),
        "command: the list counts what there is not": ("show_list", " if name in COURSE", ""),
        "command: start writes over": ("start", '"x"', '"w"'),
        "command: start ignores --to": ("start", "pathlib.Path(options.to)", "pathlib.Path()"),
        "command: a picture goes over a file": ("unused", "while found.exists()", "while False"),
        "command: a picture goes over a named file": ("check", 'if given.get("plot") and', "if False and"),
        "command: a wrong answer ends well": ("check", "return 0 if report else 1", "return 0"),
        "command: nothing is noted": ("check", "if report:\n        progress", "if False:\n        progress"),
        "command: all hints at once": ("print_hint", "min(read + 1, len(exercise.hints))", "len(exercise.hints)"),
        "command: hints start anew": ("print_hint", "hints=1", "hints=0"),
        "command: a hint after a right answer": ("check", 'if "hint" in given and not report', 'if "hint" in given'),
        "command: the solution at once": ("print_solution", "if report else", "if True else"),
        "command: who knows what it answers": ("show_unknown", "return 1", "return 0"),
        "command: the statement gives it away": ("show", 'if "solution" in options', "if True"),
    }),
    *edits((*COMMAND, "-k", "table_of_ones_own"), "study.exercises.grading.command", {
        "grade: results go among the homework": ("check_places", "if place.resolve().is_relative_to(folder.resolve())", "if False"),
        "grade: any table is its own": ("check_places", '("csv", tables.is_csv)', '("csv", lambda content: True)'),
        "grade: no table is its own": ("check_places", '("csv", tables.is_csv)', '("csv", lambda content: False)'),
    }),
    *edits(("tests/study/exercises/test_files.py", "-k", "given_by"), "study.exercises.files", {
        "files: an exercise is a name": ("exercise_called", "if isinstance(name, Exercise)", "if False"),
        "files: a teacher's file is a name": ("exercise_called", 'if name.endswith(".py")', "if False"),
        "files: what is no function is called": ("check", "if not callable(function)", "if False"),
    }),
    *edits((*JUDGE, "-k", "far_apart"), "study.exercises.course.rows", {
        "course: no rows far apart": ("rows_apart", "-1000.0", "1000.0"),
        "course: no logits far apart": ("logits_apart", "[-1000.0], [-1000.0]", "[1000.0], [1000.0]"),
    }),
    *edits((*JUDGE, "-k", "far_apart"), "study.exercises.course.attention", {
        "course: no large masked scores": ("masked_above", "np.where(mask, 0.0, 1000.0)", "0.0"),
        "course: no large later scores": ("future_above", "k[-1] += towards", "pass"),
    }),
    *edits((*JUDGE, "-k", "low_scores"), "study.exercises.course.attention", {
        "course: no low scores": ("far_below_zero", "- 200.0", "- 0.0"),
    }),
    *edits(COMMAND, "study.exercises.progress", {
        "progress: what was right is forgotten": ("note", 'before["right"] or right', "right"),
        "progress: what is broken stops the list": ("read", "except (OSError, ValueError, TypeError, KeyError, AttributeError)", "except OSError"),
    }),
    *edits(COMMAND, "study.exercises.text", {
        "text: the example is not rounded": ("example", "np.round(value, 1)", "value"),
        "text: the starter without its example": ("starter", "lines += [f\"    # {line}\"", "lines += [f\"    # \""),
    }),
    *edits(COMMAND, "models.commands.shared", {
        "shared: unknown flags pass": ("Parser.parse_known_args", "if unknown", "if False"),
    }),
]
