"""Sabotages of how a class is graded: whose files are found, what is kept, what the tables and the page say."""
from sabotage.edit import edits

GRADING = ("tests/study/exercises/test_grading.py",)
FINDING = (*GRADING, "-k", "names or defines or students or several or no_submission or links or read or some_exercises or folder or hidden")
JUDGES = (*GRADING, "-k", "judge_that_fails or no_judge or whatever_the_order or stopped")
KEPT = (*GRADING, "-k", "kept or too_long or meanwhile or interrupted or own")
TABLES = (*GRADING, "-k", "frequency or summary or spreadsheet or json or gradescope or terminal")
COMMAND = (*GRADING, "-k", "outputs or overwritten or autograder or bad_input")
ONE = (*GRADING, "-k", "one_submission or bug or seconds_of_a_call")
FILES = ("tests/study/exercises/test_files.py",)
PAGE = ("tests/study/exercises/test_grading_page.py",)

SABOTAGES = [
    *edits(FINDING, "study.exercises.grading.submissions", {
        "grading: links are followed": ("read", "if not path.resolve(strict=True).is_relative_to(root):", "if False:"),
        "grading: links to folders are followed": ("read", "if path.is_dir():", "if False:"),
        "grading: hidden files are read": ("is_wanted", 'else name.startswith(".")', "else False"),
        "grading: hidden students are left out": ("is_wanted", "name in TOOLS if is_students else", ""),
        "grading: tools hand in": ("is_wanted", "name in TOOLS if", "False if"),
        "grading: a folder that cannot be read is left out": ("files_in", "onerror=stop", "onerror=None"),
        "grading: its own results are submissions": ("is_wanted", "and not kept.is_ours(path)", ""),
        "grading: softmax before log_softmax": ("exercises_of", "(name in by_content, len(name))", "(name in by_content, -len(name))"),
        "grading: a name decides against what is defined": ("exercises_of", "(name in by_content, len(name))", "len(name)"),
        "grading: an exact name is one of several": ("named_by", 'return {words[text]: ""}', 'found[words[text]] = ""'),
        "grading: softmax-2 is not softmax": ("named_by", ', plain(COPY.fullmatch(stem)["stem"])', ", "),
        "grading: the first of several files": ("of_student", "*others, best = sorted", "best, *others = sorted"),
        "grading: 9 comes after 10": ("File.preference", 'int(copy["in_brackets"] or copy["number"] or 0)',
                                      'str(copy["in_brackets"] or copy["number"] or 0)'),
        "grading: a notebook before a .py": ("File.preference", 'self.path.suffix == ".py"', 'self.path.suffix != ".py"'),
        "grading: two students of one name are one": ("owner_of_folder", 'found["number"]', '""'),
        "grading: whoever handed in nothing is left out": ("find", "elif not owners[owner]:", "elif False:"),
        "grading: whoever lacks an exercise is left out": ("find", "if every:", "if False:"),
        "grading: another file is not taken for the only exercise": (
            "of_student", "by_exercise[only], unknown = unknown, []", "pass"),
        "grading: any file is taken for the only exercise": (
            "of_student", "and not by_exercise.keys() & exercises.keys()", ""),
        "grading: one submission is several students": ("find", "alone if one_student else file.owner", "file.owner"),
    }),
    *edits(JUDGES, "study.exercises.grading.judges", {
        "grading: a judge that failed goes on": ("judge_all", 'if result.get("failed"):', "if False:"),
        "grading: a judge may take any time": ("judge_all", "or judge.deadline <= time.monotonic()", ""),
        "grading: judges stay": ("judge_all", "for judge in (*idle, *busy.values()):", "for judge in ():"),
        "grading: a judge that does not start is waited for": ("Judge.__init__", "is None:", "is NotImplemented:"),
        "grading: garbage is a result": ("Judge._receive", "(EOFError, OSError, ValueError)", "(EOFError, OSError)"),
    }),
    *edits(KEPT, "study.exercises.grading.kept", {
        "grading: the content is not in the key": ("Kept.key", "digest(path), ", '"", '),
        "grading: a teacher's exercise is its name": ("Kept.key", 'digest(exercise) if exercise.endswith(".py") else', ""),
        "grading: the seed is not in the key": ("Kept.key", ", self.seed", ""),
        "grading: the seed is drawn anew": ("Kept.__init__", '(before or {}).get("seed", secrets.randbelow(10**6))',
                                            "secrets.randbelow(10**6)"),
        "grading: damage is not seen": ("read", "ValueError, ", ""),
    }),
    *edits(KEPT, "study.exercises.grading.command", {
        "grading: nothing is kept": ("judged", 'if not result.get("failed") and', "if False and"),
        "grading: what has changed is kept": (
            "judged", "grades.key(submission.path, task.exercise) == key", "True"),
        "grading: Ctrl-C does not say how to go on": ("judged", "except KeyboardInterrupt:", "except ZeroDivisionError:"),
        "grading: a time-out is for ever": ("judged", 'before["verdict"] != TIMEOUT or before["limit"] >= seconds', "True"),
        "grading: time-outs are always judged again": (
            "judged", 'before["verdict"] != TIMEOUT or before["limit"] >= seconds', 'before["verdict"] != TIMEOUT'),
    }),
    *edits(JUDGES, "study.exercises.grading.command", {
        "grading: what a judge failed at is kept": ("judged", 'if not result.get("failed") and', "if"),
    }),
    *edits(COMMAND, "study.exercises.grading.command", {
        "grading: overwrites": ("check_file_place", "and not force and", "and False and"),
        "grading: --force does not": ("check_file_place", "and not force and", "and"),
        "grading: its own files are another's": ("check_file_place", "and not is_ours(path.read_bytes())", ""),
        "grading: results of Gradescope are overwritten": (
            "check_places", 'for path in place.glob(f"*/{gradescope.RESULTS}"):', "for path in ():"),
        "grading: writes into the students' folder": ("check_places", 'if "out" not in given and', "if False and"),
        "grading: --points is ignored": ("run", 'worth(chosen, given.get("points"))', "worth(chosen, None)"),
    }),
    *edits(TABLES, "study.exercises.grading.tables", {
        "grading: a spreadsheet computes": ("harmless", "and cell.lstrip().startswith(FORMULA)", "and False"),
        "grading: a spreadsheet computes after blanks": ("harmless", "cell.lstrip().startswith", "cell.startswith"),
        "grading: lines are too wide": ("table", "if width else text", "if False else text"),
    }),
    *edits(TABLES, "study.exercises.grading.rows", {
        "grading: only those who are wrong count": ("frequencies", "answers[row.exercise] += 1", "answers[row.exercise] += not row.points"),
        "grading: two mistakes at once are one": ("causes", "row.mistakes or", "row.mistakes[:1] or"),
        "grading: what is no mistake stands among them": ("frequencies", "one.mistake in NO_MISTAKE.values(), ", ""),
        "grading: the rarest mistake first": ("frequencies", "-one.count", "one.count"),
        "grading: a terminal is moved": ("line", 'UNSHOWN.sub("\\ufffd", " ".join(text.split()))', '" ".join(text.split())'),
    }),
    *edits(TABLES, "study.exercises.grading.gradescope", {
        "grading: Gradescope renders HTML": ("results", '"output_format": "text",', ""),
        "grading: a status that Gradescope has not": ("test", 'else "failed"', "else row.verdict"),
        "grading: a number that is no string": ("test", "str(number)", "number"),
        "grading: folders of the same name": ("files", "while name.casefold() in taken:", "while False:"),
        "grading: a student's name leaves the folder": ("folder_name", 're.sub(r"[^\\w .()-]", "_", student)', "student"),
    }),
    *edits(ONE, "study.exercises.grading.judge_process", {
        "grading: a file to start from is judged": ("is_starter", "ast.dump(given) == ast.dump(first)", "False"),
        "grading: every file is one to start from": ("is_starter", "ast.dump(given) == ast.dump(first)", "True"),
        "grading: a bug of the judge ends it": ("judged", "except Exception as error:", "except ZeroDivisionError as error:"
                                                "\n        raise\n    except Exception as error:"),
        "grading: other limits than check's": ("limits_of", "CALLS * seconds", "seconds"),
        "grading: students' control characters stay": ("said_of", "lines(repr(report))", "repr(report)"),
    }),
    *edits(FILES, "study.exercises.files", {
        "check_file: limits are ignored": ("check_file", "function_name, limits)", "function_name)"),
        "check_file: the seed is ignored": ("check_file", "caller, seed)", "caller, None)"),
        "check_file: the signature is not looked at": ("check_file", "submission.expect(", "str("),
        "check_file: what cannot be read raises": ("check_file", "if exercise is None:\n            raise", "if True:\n            raise"),
    }),
    *edits(PAGE, "study.exercises.grading.page", {
        "grading: the page escapes nothing": ("escaped", "_html.escape(text)", "text"),
        "grading: the page may run scripts": ("html", "default-src 'none'", "default-src 'unsafe-inline'"),
        "grading: what was handed in is not shown": ("in_full", "if row.source:", "if False:"),
        "grading: bars of one length": ("mistakes", "100 * one.count / one.answers", "100"),
        "grading: any page is ours": ("is_page", "content.startswith(", "bool("),
    }),
]
