"""Sabotages of exercises that have a judge of their own, and of a teacher's own."""
from sabotage.edit import edits

FINDING = ("tests/study/exercises/test_finding.py",)
OWN = ("tests/study/exercises/test_own.py",)

SABOTAGES = [
    *edits(FINDING, "study.exercises.finding.base", {
        "finding: all weaknesses at once": ("weaknesses", "[:1] or seen", "[:0] or seen"),
        "finding: a fact alone is right": ("Finding.is_right", " and not self.facts", ""),
        "watched: arguments are not copied": ("as_array", "np.array(value)", "np.asarray(value)"),
        "watched: moves down are not seen": ("Watched._note", "self.down[k] |= is_down", "pass"),
        "watched: entries that moved are forgotten": ("Watched._note", "self.moved[k] |=", "self.moved[k] ="),
        "watched: no NaN": ("Watched._note", "bool(np.isnan(change).any())", "False"),
        "watched: dtypes as converted": ("Watched._note", "self.dtypes.add(given.dtype)", "self.dtypes.add(start.dtype)"),
        "watched: all is one-sided": ("Watched.is_one_sided", "or not down.any()", "or True"),
        "watched: halves are whole": ("numbers_in", "v == v // 1", "True"),
    }),
    *edits(FINDING, "study.exercises.finding.checkers", {
        "checkers: who raises is right": ("Session.is_alarm", "self.said is not True", "self.said is False"),
        "checkers: who raises misses": ("Session.is_missed", 'self.answer.kind == "returned" and ', ""),
        "checkers: any answer is True": ("Session.said", 'value.dtype.kind == "b" and ', ""),
        "checkers: what is hardly off has to be seen": ("Session.is_missed", "self.off > VISIBLE", "self.off > 0"),
        "checkers: a shape is no error": ("compared", "np.shape(a) == np.shape(b) and ", ""),
        "checkers: always the same wrong backwards": ("wrong_ones", "generator.permutation(len(mutants))", "range(len(mutants))"),
        "checkers: all is tried once": ("grade", "if session.is_alarm or session.is_missed", "if session.said is None"),
        "checkers: an error each time is a verdict": ("grade", "if len(sessions) == len(rights) and all", "if False and all"),
        "checkers: a NaN is a form": ("compared", "has_nan or a is not None and", "False and"),
        "checkers: the worst last": ("grade", "key=lambda s: -s.off", "key=lambda s: s.off"),
        "checkers: what raised is not told": ("facts", 'if s.answer.kind == "raised"', "if False"),
        "checkers: one that is missed is the worst": ("facts", "if len(missed) > 1", "if True"),
        "checkers: rounding is a change": ("was_changed", "rtol=1e-9, atol=1e-12", "rtol=0, atol=0"),
    }),
    *edits(FINDING, "study.exercises.finding.leaks", {
        "leaks: both heads leak nowhere": ("draw", "mask[generator.integers(2), i, j] = True", "pass"),
        "leaks: it leaks twice": ("draw", "mask[generator.integers(2), i, j]", "mask[:, i:j, j]"),
        "leaks: no mask": ("Leaking.__call__", "self.mask, q", "self.mask | True, q"),
        "leaks: a pair is always right": ("Hunt.is_right", "self.said == self.model.place", "self.said is not None"),
        "leaks: an error each time is a verdict": ("hunt", 'if all(h.answer.kind == "raised"', "if False and all(h.answer.kind"
                                                    ' == "raised"'),
        "leaks: found whatever holds": ("finds_only", "holds == found for", "found <= holds for"),
    }),
    *edits(FINDING, "study.exercises.finding.choices", {
        "choices: the right one is first": ("draw", "generator.permutation(len(chosen))", "range(len(chosen))"),
        "choices: hardly wrong ones": ("draw", "10 * VISIBLE <", "0 <="),
        "choices: ill-formed ones": ("draw", "< np.inf", "<= np.inf"),
        "choices: any index is right": ("Choice.is_right", "self.index == self.right", "self.index is not None"),
        "choices: an error each time is a verdict": ("tell_apart", 'if all(c.answer.kind == "raised"',
                                                     'if False and all(c.answer.kind == "raised"'),
    }),
    *edits(OWN, "study.exercises.own.derivatives", {
        "own: a kink is certain": ("Derivatives._of", "np.all(verdict == FAIL) and ", ""),
        "own: whatever the bound": ("Derivatives._of", "bound <= CERTAIN *", "bound <= 1e9 + CERTAIN *"),
        "own: zeros are noise": ("Derivatives._of", "if np.all(np.abs(numeric) <= bound)", "if False"),
        "own: the step's scale is forgotten": ("Derivatives._of", "numeric / scale, bound", "numeric, bound"),
        "own: one answer for all upstreams": ("Derivatives.known", "for a in (dout, *arguments)", "for a in arguments"),
        "own: shapes are not kept apart": ("Derivatives.known", "np.shape(a), ", ""),
    }),
    *edits(OWN, "study.exercises.own.load", {
        "own: kinks are not avoided": ("OwnExercise.inputs", "filter(self.is_fit, ", "filter(bool, "),
        "own: no special inputs": ("OwnExercise.inputs", "for draw in self.special", "for draw in ()"),
        "own: a backward is believed": ("exercise_from", "if backward:\n        compare", "if False:\n        compare"),
        "own: mistakes are not looked at": ("exercise_from", "check_mistakes(exercise, drawn, mistakes)", "pass"),
        "own: its mistakes are unknown": ("routine_with", "mistakes=own + ", "mistakes=() + "),
        "own: the library's mistakes are unknown": ("routine_with", "library.mistakes if library", "library.mistakes if False"),
        "own: the solution has another name": ("solution_in", "f\"def {name}_backward(\"", "f\"def {name}(\""),
        "own: limits of nothing": ("limits_of", "letter not in letters or ", ""),
    }),
    *edits(OWN, "study.exercises.own.recognise", {
        "own: every function is known": ("has_values", "and np.allclose(found, wanted, rtol=1e-9, atol=1e-12)", ""),
        "own: no function is known": ("has_values", "return found.shape ==", "return False and found.shape =="),
    }),
    *edits(OWN, "study.exercises.own.template", {
        "own: new writes over": ("new", '"x"', '"w"'),
        "own: new takes any name": ("new", "not name.isidentifier() or ", ""),
    }),
    *edits(OWN, "study.exercises.own.parts", {
        "own: misspelt parts are ignored": ("look_for_typos", "0.85", "1.0"),
        "own: masks get gradients": ("learned_of", 'value.dtype.kind == "f" and name not in', "name not in"),
        "own: constants get gradients": ("learned_of", " and name not in constants_of(names)", ""),
        "own: an empty statement": ("statement_of", "if not statement.strip()", "if False"),
        "own: words for shapes": ("letters_of", "len(part) == 1 and part in string.ascii_letters", "True"),
        "own: float32 is drawn": ("learned_of", "value.dtype != np.float64", "False"),
    }),
    *edits(OWN, "study.exercises.own.trial", {
        "own: forward may write": ("look_at_forward", "not np.array_equal(before, after,", "False and not np.array_equal("
                                   "before, after,"),
        "own: forward may be random": ("look_at_forward", "if not np.array_equal(out, again", "if False and not np.array_equal("
                                       "out, again"),
        "own: forward may give NaN": ("look_at_forward", "if not np.all(np.isfinite(out))", "if False"),
        "own: any kink will do": ("try_out", "if len(drawn) < len(PLANS)", "if False"),
        "own: a gradient may be 0": ("try_out", "if not any(", "if False and not any("),
        "own: a right backward is a mistake": ("check_mistakes", "if all(", "if False and all("),
    }),
    *edits(OWN, "study.exercises.own.flaw", {
        "own: without the line": ("told", "if lines else", "if False else"),
    }),
]
