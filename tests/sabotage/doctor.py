"""The doctor: its search, its relations, its facts, and what gradcheck asks it, each broken in turn."""
from sabotage.edit import edits

FILE = "tests/study/mistakes/test_doctor.py"
EXPLAINED = (FILE, "-k", "few_numbers or one_shape or of_its_own or on_top_of or raises_explains or nonsense and softmax")
EXACT = (FILE, "-k", "exact_relations or nobody_can_name or between_gradients or another_functions or diagonal or raises_explains")
DESCRIBED = (FILE, "-k", "is_described or finite or at_times")
CHECKED = (FILE, "-k", "gradcheck_recognises or gradcheck_describes or picture or large_inputs or what_passes")
PAIRS = (FILE, "-k", "two_mistakes and linear")
KNOWN = (FILE, "-k", "a_known_mistake_is_named and softmax")
HANDED_IN = ("tests/study/mistakes/test_mutants.py", "-k", "handed_in or diagnosed")
SEARCH, RELATIONS, FACTS, CASE = (f"study.mistakes.doctor.{name}" for name in ("search", "relations", "facts", "case"))
CONSULT = "study.mistakes.consult"

SABOTAGES = [
    *edits(EXPLAINED, SEARCH, {
        "search: two numbers are enough": ("is_enough", "numbers >= FEW_NUMBERS or", "numbers >= 2 or"),
        "search: another upstream is another input": ("shown_by", "arrays_of(seen.inputs).values()", "seen.inputs.values()"),
        "search: one shape tells everything": ("of_one_shape", "len(shapes) > 1", "True"),
        "search: each on its own is not tried": ("each_on_its_own", "found = dict.fromkeys(names, explanation) | found", "pass"),
        "search: no relation on top of a mistake": ("on_its_own", "in COMPOSING", "in ()"),
        "search: where a mistake is goes unsaid": ("sentences", '"" if is_all', '"" if True'),
    }),
    *edits(PAIRS, SEARCH, {
        "search: no pairs": ("found_for", "pairs_of(case.routine.mistakes)", "[]"),
        "search: a pair need not leave right what is right": ("pairs_of", "if not a.changes.keys() & b.changes.keys()", "if False"),
    }),
    *edits(KNOWN, SEARCH, {
        "search: the first known mistake, whatever it explains": ("fitting", "if case.explains(name, case.known(mistakes, name))",
                                                                  ""),
    }),
    *edits(EXACT, CASE, {
        "case: the first input alone": ("Case.explains", "for seen in self.seen if", "for seen in self.seen[:1] if"),
        "case: shapes are broadcast": ("Case.agreement", " or given.shape != expected.shape", ""),
        "case: rough": ("Case.agreement", "self.tolerance *", "1e-1 *"),
    }),
    *edits(EXACT, RELATIONS, {
        "relations: any number is zero": ("is_zero", "not np.any(g)", "True"),
        "relations: a factor need not be the same": ("is_multiplied", "if not names and not is_constant", "if False"),
        "relations: digits": ("is_multiplied", "< FEW_DIGITS", "< 0"),
        "relations: unsummed is not seen": ("is_unsummed", "given.sum(axes)", "given.mean(axes)"),
        "relations: keepdims is not seen": ("has_other_shape", "given.reshape(-1), right.reshape(-1)", "given, right"),
        "relations: float32 errs to one side": ("is_rounded", "0.15 <", "0.95 <"),
        "relations: other functions are not tried": ("is_another_functions", "FUNCTIONS.items()", "()"),
        "relations: the Jacobian's first column": ("diagonal", ".reshape(-1)[k]", ".reshape(-1)[0]"),
        "relations: summed over another axis": ("is_summed", "right.sum(axes)", "right.sum(0)"),
    }),
    *edits(DESCRIBED, FACTS, {
        "facts: places of one input": ("where", "len(parts) == len(wrong_on) and", ""),
        "facts: a larger place": ("where", "min(shares, key", "max(shares, key"),
        "facts: inputs in common": ("on_which_inputs", "== is_wrong]", "!= is_wrong]"),
        "facts: NaN is not counted": ("not_finite", "not np.all(np.isfinite(given))", "False"),
        "facts: None goes unsaid": ("form_of", 'return [f"{name} is None"]', "continue"),
    }),
    *edits(HANDED_IN, FACTS, {
        "facts: another shape goes unsaid": ("form_of", "if name in seen.given and given.shape != right.shape", "if False"),
    }),
    *edits(HANDED_IN, "study.mistakes.diagnose", {
        "diagnose: an error at times is forgotten": ("diagnose", "if not raised:", "if True:"),
        "diagnose: any number of gradients": ("diagnose", "if len(found) != len(routine.results)", "if False"),
    }),
    *edits(CHECKED, CONSULT, {
        "consult: values do not matter": ("has_values", "return output.shape == seen.output.shape and", "return True or"),
        "consult: known functions are not tried": ("consultations", "if has_values(function, seen[0])", "if False"),
        "consult: large inputs too": ("consultations", "size > LARGEST", "size > 100 * LARGEST"),
        "consult: a backward for other shapes": ("as_known", "except Exception:", "except KeyError:"),
        "consult: nothing by differences": ("by_differences", "if not any(", "if True or any("),
    }),
    *edits(CHECKED, "minigrad.gradcheck.report", {
        "report: the diagnosis is left out": ("GradcheckReport.__repr__", "self.diagnosis is not None and self.diagnosis.sentence",
                                              "False"),
        "report: nothing of the picture": ("InputReport.diagnosis", "if is_jacobian else", "if False else"),
    }),
]
