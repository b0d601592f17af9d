"""Sabotages of how a submission is read, and of the process in which it runs, on both of its sides."""
import pathlib

from sabotage.base import Sabotage
from sabotage.edit import edits
from study.exercises import sandbox

READ = ("tests/study/exercises/test_submission.py",)
RUN = "tests/study/exercises/test_sandbox.py"
DEEDS = RUN, "-k", "deed"
RETURNED = RUN, "-k", "returned or more_than_can"
GIVEN = RUN, "-k", "argument or process_serves or judge or threads_may"
SAID = RUN, "-k", "names_the or function_that or beginning or cursor or notebook or recursion"
FORGED = RUN, "-k", "forged or message or flood"
AROUND = RUN, "-k", "surroundings or two_processes or draws or cannot_start or it_has_started or once_it or share"


def in_worker(tests: tuple[str, ...], module: str, rows: dict[str, tuple[str, str]]) -> list[Sabotage]:
    """Sabotages {name: (old, new)} of a file that runs in the process of a submission."""
    return [Sabotage(name, tests, exchange(module, old, new)) for name, (old, new) in rows.items()]


def exchange(module: str, old: str, new: str):
    """What lets the process run with `new` for `old` in one of its files. Nothing is written: the text goes as an argument."""

    def apply() -> None:
        files = {path.stem: path.read_text(encoding="utf-8") for path in pathlib.Path(sandbox.WORKER).glob("*.py")}
        if files[module].count(old) != 1:
            raise LookupError(f"{module} has {files[module].count(old)} times {old!r}, expected once")
        files[module] = compiles(files[module].replace(old, new), module)
        sandbox.FLAGS = (*sandbox.FLAGS, "-c", LOADER.format(module=module, text=files[module], main=files["__main__"]))

    return apply


def compiles(text: str, name: str) -> str:
    compile(text, name, "exec")
    return text


LOADER = """
import sys, types
sys.argv.pop(0)
sys.path.insert(0, sys.argv[0])
if {module!r} != "__main__":
    sys.modules[{module!r}] = types.ModuleType({module!r})
    exec(compile({text!r}, {module!r}, "exec"), vars(sys.modules[{module!r}]))
exec(compile({main!r}, "__main__", "exec"))
"""

SABOTAGES = [
    *edits(READ, "study.exercises.submission", {
        "submission: str's ends of lines": ("Source.lines", 'self.text.split("\\n")', "self.text.splitlines()"),
        "submission: lines of a cell begin with 0": ("Source.place", "self.cells[cell - 1] + 1", "self.cells[cell - 1]"),
        "submission: cells begin with 0": ("Source.place", "code cell {cell}", "code cell {cell - 1}"),
        "submission: code as it came": ("Source.code", "safe(self.lines[line - 1].strip())", "self.lines[line - 1].strip()"),
        "submission: an empty file is one": ("read", "if not source.text.strip()", "if False"),
        "submission: names as they came": ("read", "safe(path.name)", "path.name"),
        "submission: a folder is a file": ("content_of", "if path.is_dir()", "if False"),
        "submission: pipes are files": ("content_of", "if not stat.S_ISREG(os.fstat(descriptor).st_mode)", "if False"),
        "submission: any size": ("content_of", "if len(content) > LARGEST[suffix]", "if False"),
        "submission: any name": ("content_of", "if suffix not in LARGEST", "suffix = suffix if suffix in LARGEST else '.py'\n        if False"),
        "submission: UTF-16 is binary": ("text_of", 'if content[:2] in (b"\\xff\\xfe", b"\\xfe\\xff")', "if False"),
        "submission: zeros are text": ("text_of", 'if b"\\0" in content', "if False"),
        "submission: always UTF-8": ("text_of", "encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)", "encoding = 'utf-8'"),
        "submission: an encoding nobody knows": ("text_of", 'if b"coding" in', 'if b"codec" in'),
        "submission: the line of another byte": ("text_of", '.count(b"\\n") + 1', '.count(b"\\n")'),
        "submission: ends of lines stay": ("with_newlines", '.replace("\\r\\n", "\\n").replace("\\r", "\\n")', ""),
        "submission: deep code breaks the reader": ("parse", "(RecursionError, MemoryError)", "RecursionError"),
        "submission: long numbers break the reader": ("parse", "except ValueError as error", "except KeyError as error"),
        "submission: a notebook by another name": ("source_of_text", 'if text.lstrip()[:1] == "{" and', "if False and"),
        "submission: text cells are code": ("source_of_notebook", ' if cell["cell_type"] == "code"', ""),
        "submission: any amount of code": ("source_of_notebook", "if sum(map(len, sources)) > LARGEST_CODE", "if False"),
        "submission: lines of cells that are left out go": ("source_of_notebook", '"\\n".join("" for _ in text.split("\\n"))', '""'),
        "submission: nothing left, nothing said": ("source_of_notebook", "if broken and not body", "if False"),
        "submission: the line of its cell alone": ("source_of_notebook", "error, first - 1)", "error)"),
        "submission: the shell is Python": ("without_magics", 'lines[0].startswith("%%") and', "False and"),
        "submission: every % is magic": ("without_magics", "    for _ in range(MOST_MAGICS)", "    lines = ['pass' if line.strip()[:1] == '%' else line for line in lines]\n    for _ in range(MOST_MAGICS)"),
        "submission: a magic leaves its block empty": ("without_magics", '+ "pass"', '+ ""'),
        "submission: no help": ("is_magic", ' or line.endswith("?")', ""),
        "submission: no magic is assigned": ("is_magic", 'bool(equals) and right.strip().startswith(("%", "!"))', "False"),
        "submission: functions in an if do not count": ("top_level", '("body", "orelse", "finalbody")', '("orelse", "finalbody")'),
        "submission: functions after except do not count": ("top_level", "yield from top_level(handler.body)", "pass"),
        "submission: functions in functions count": ("top_level", "if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))", "if True"),
        "submission: names do not count": ("defined", "(ast.Assign, ast.AnnAssign, ast.AugAssign)", "()"),
        "submission: one of several names counts": ("defined", "for name in ast.walk(target) if", "for name in [target] if"),
        "submission: imports do not count": ("defined", "(ast.Import, ast.ImportFrom)", "()"),
        "submission: decorators change no arguments": ("defined", "None if node.decorator_list else node", "node"),
        "submission: functions out of reach are no help": ("defined", "inner |= {", "_ = {"),
        "submission: the parser is enough": ("parse", 'compile(text, name, "exec", 0, True)', "pass"),
        "submission: older notebooks are none": ("source_of_notebook", 'notebook.get("worksheets", [notebook])', "[notebook]"),
        "submission: the function before the file": ("exercise_of", "if stem in (name, function.lower())", "if False"),
        "submission: capitals in names of files": ("exercise_of", "source.stem.lower()", "source.stem"),
        "submission: the first of several": ("exercise_of", "if len(found) == 1", "if found"),
        "submission: no suggestion of an exercise": ("exercise_of", "if close := nearest(function, source.functions)", "if close := None"),
        "submission: no suggestion of a function": ("expect", "if close := nearest(function, source.functions)", "if close := None"),
        "submission: a cell that is no Python is not said": ("expect", "        if source.broken:\n            raise source.broken[0]", "        if False:\n            pass"),
        "submission: any number of arguments": ("expect", "elif required > len(arguments) or", "elif False and"),
        "submission: *arguments are none": ("expect", " and not given.vararg", ""),
        "submission: defaults are required": ("expect", "len(names) - len(given.defaults)", "len(names)"),
        "submission: names are required": ("expect", "elif keywords", "elif False"),
        "submission: any order": ("expect", "sorted(names) == sorted(arguments)", "False"),
        "submission: any names": ("expect", "and sorted(names) == sorted(arguments)", ""),
        "submission: async is a function": ("expect", "isinstance(node, ast.AsyncFunctionDef)", "False"),
        "submission: capitals in functions": ("nearest", "other.lower(): other", "other: other"),
    }),
    *edits(DEEDS, "study.exercises.sandbox", {
        "sandbox: no time is too long": ("Sandbox._wait", "if left <= 0", "if False"),
        "sandbox: it is asked to end": ("Sandbox._kill", "signal.SIGKILL", "signal.SIGTERM"),
        "sandbox: the folder stays": ("Sandbox.close", "remove(self.folder)", "pass"),
        "sandbox: what is printed is not taken": ("Sandbox._wait", "selector.register(self.output, selectors.EVENT_READ)", "pass"),
        "sandbox: a crash is an exit": ("Sandbox._why_dead", "if code >= 0", "if True"),
        "sandbox: too much of the processor is a death": ("Sandbox._why_dead", 'if -code == getattr(signal, "SIGXCPU", None)', "if False"),
        "sandbox: what is refused is forgotten": ("refused", "if isinstance(found, list)", "if False"),
        "sandbox: errors are not explained": ("Sandbox._raised", "}.get(kind", "}.get(''"),
    }),
    *edits(GIVEN, "study.exercises.sandbox", {
        "sandbox: what was written to arguments is not told": ("Sandbox._answer", "after if isinstance(after, list) else arguments", "arguments"),
        "sandbox: calls of functions are not counted": ("Sandbox._ask", "asked += 1", "pass"),
        "sandbox: errors of the judge's functions end it": ("Sandbox._called_back", "except Exception as error", "except KeyError as error"),
    }),
    *edits(FORGED, "study.exercises.sandbox", {
        "sandbox: any call's reply": ("Sandbox._ask", 'if header.get("call") != token', "if False"),
        "sandbox: any function is called": ("Sandbox._called_back", "0 <= number < len(functions)", "True"),
    }),
    *edits(FORGED, "study.exercises.worker.wire", {
        "wire: headers of any length": ("lengths", "header > LARGEST_HEADER or ", ""),
        "wire: arrays of any length": ("lengths", " or body > LARGEST_BODY", ""),
        "wire: bytes may be left": ("unpack", "if reader.position != len(body)", "if False"),
        "wire: what is wrong raises": ("unpack", "except Exception as error", "except KeyError as error"),
        "wire: any function": ("_Reader.read", 'if kind == "callable" and self.proxy is not None', 'if kind == "callable" and (self.proxy or print) '),
        "wire: any value": ("_Reader.read", "and (value is None or isinstance(value, (bool, int, float, str)))", ""),
        "wire: any depth": ("_Reader.read", "if depth == 0", "if False"),
        "wire: any dtype": ("_Reader.array", "not DTYPE.fullmatch(name) or ", ""),
        "wire: any shape": ("_Reader.array", "or not all(type(n) is int and 0 <= n < 2**40 for n in shape)", ""),
        "wire: arrays need not come": ("_Reader.array", "if end > len(self.body)", "if False"),
    }),
    *edits(SAID, "study.exercises.sandbox", {
        "sandbox: all that is printed": ("Sandbox._take", "piece[:KEPT - len(self.printed)]", "piece"),
        "sandbox: what a death leaves unread": ("Sandbox._ends", "self._drain()", "pass"),
        "sandbox: control characters are told": ("Sandbox.told", 'safe(self.printed.decode("utf-8", "replace"))', 'self.printed.decode("utf-8", "replace")'),
        "sandbox: what failed before is forgotten": ("Sandbox._raised", 'if kind == "NameError" and self.failed', "if False"),
        "sandbox: reading is calling": ("Sandbox._load", "self._raised({**header, **failed}, loading=True)", "self._raised({**header, **failed})"),
        "sandbox: a function that is gone": ("Sandbox._load", 'if found in (None, "NoneType")', "if False"),
    }),
    *in_worker(SAID, "__main__", {"worker: a list is a function": ("if callable(self.function) else", "if True else")}),
    *edits(AROUND, "study.exercises.sandbox", {
        "sandbox: the user's environment": ("Sandbox._spawn", "environment = ENVIRONMENT |", "environment = dict(os.environ) |"),
        "sandbox: the user's session": ("Sandbox._spawn", "start_new_session=True", "start_new_session=False"),
        "sandbox: the user's folder": ("Sandbox._spawn", '{"HOME": self.folder, "TMPDIR": self.folder}', "{}"),
        "sandbox: the user's keys": ("Sandbox._spawn", "stdin=subprocess.DEVNULL", "stdin=os.open(__file__, os.O_RDONLY)"),
        "sandbox: why it cannot start is not said": ("Sandbox._start", "self.told.strip()", '""'),
        "sandbox: Windows is tried": ("Sandbox._start", 'if os.name != "posix"', "if False"),
        "sandbox: what it started lives on": ("Sandbox._kill", "os.killpg(", "os.kill("),
        "sandbox: dies again and again": ("Sandbox.call", "if self.end:", "if False:"),
        "sandbox: each call has all the time": ("Sandbox.call", "min(self.limits.call_seconds, self.seconds_left)", "self.limits.call_seconds"),
    }),
    *edits(RETURNED, "study.exercises.worker.returned", {
        "returned: ragged lists are arrays": ("numbers_of", "len(row) == len(level[0])", "True"),
        "returned: a huge integer breaks it": ("described_number", "except OverflowError", "except KeyError"),
        "returned: text is an array": ("described_array", "if kind not in NUMERIC", "if False"),
    }),
    *in_worker(DEEDS, "__main__", {
        "worker: no limit of memory": ('("RLIMIT_AS", limits["megabytes"] * megabyte), ', ""),
        "worker: no limit of the processor": ('("RLIMIT_CPU", limits["processor_seconds"]), ', ""),
        "worker: no limit of files": ('("RLIMIT_FSIZE", limits["file_megabytes"] * megabyte), ', ""),
        "worker: no limit of descriptors": ('("RLIMIT_NOFILE", 64)', '("RLIMIT_NOFILE", 10**6)'),
        "worker: no hard limit of the processor": ("max(soft, value + 1)", "10**6"),
        "worker: no guard": ("    watch.install()\n", ""),
        "worker: modules from everywhere": ("sys.meta_path.append(Imports)", "pass"),
        "worker: patched functions": ("data = data[_write(REPLIES, data):]", "data = data[os.write(REPLIES, data):]"),
        "worker: patched bytes": ("_bytes(a) == _bytes(b)", "a.tobytes() == numpy.asarray(b).tobytes()"),
        "worker: a message that raises": ('text = "(its message cannot be read)"', "raise"),
        "worker: a name that lies": ("name_of(_type(error))", "_type(error).__name__"),
        "worker: only exceptions": ("header, tree = self.loaded(tree) if self.function is None else answer(self.function, tree)\n        except BaseException", "header, tree = self.loaded(tree) if self.function is None else answer(self.function, tree)\n        except Exception"),
        "worker: exit is missing": ("builtins.exit = builtins.quit = sys.exit", "pass"),
        "worker: output that cannot be flushed": ("                stream.flush()\n            except BaseException", "                stream.flush()\n            except KeyError"),
        "worker: pictures are missing": ("if root in PLOTS", "if False"),
        "worker: a picture has no parts": ("return iter((Nothing(\"figure\"), Nothing(\"axes\")))", "return iter(())"),
    }),
    *in_worker(DEEDS, "guard", {
        "guard: links are opened as they are named": ('"os.link": "make a link", "os.symlink": "make a link",', ""),
        "guard: processes": ('"os.fork": "start a process", ', ""),
        "guard: shells": ('"os.system": "start a process", ', ""),
        "guard: programs instead": ('"os.exec": "start a process", ', ""),
        "guard: programs": ('"subprocess.": "start a process", ', ""),
        "guard: fork_exec": ('"pidfd_send_signal", "fork_exec",', '"pidfd_send_signal",'),
        "guard: signals": ('"os.kill": "send a signal", ', ""),
        "guard: network": ('"socket.": "use the network", ', ""),
        "guard: ctypes": ('"ctypes.": "use ctypes",', ""),
        "guard: limits": ('"resource.": "change its limits", ', ""),
        "guard: another hook": ('"sys.addaudithook": "hook into the audit",', ""),
        "guard: databases": ('"_sqlite3": "open a database", ', ""),
        "guard: pipes with names": ('"mkfifo", "mknod"', '"mknod"'),
        "guard: any number of files": ("        if writes:\n            self.count()", "        if writes:\n            pass"),
        "guard: any number of folders": ("        elif event in DELETES:\n            self.count()", "        elif event in DELETES:\n            pass"),
        "guard: deletes": ("if not self.is_own(path):\n                    self.refuse", "if False:\n                    self.refuse"),
        "guard: renames from elsewhere to its own only": ('arguments[:2] if event == "os.rename" else arguments[:1]', "arguments[:1]"),
        "guard: looks anywhere": ("if arguments and not (self.is_own(arguments[0]) or self.is_readable(arguments[0]))", "if False"),
        "guard: opens all to write": ("not writes and self.is_readable(path)", "writes or self.is_readable(path)"),
        "guard: reads everything": ("isinstance(path, int) or is_below(self.real(path), self.folder)", "True"),
        "guard: r+ is no writing": ("isinstance(flags, int) and flags & WRITES or isinstance(mode, str) and set(mode) & set(\"wax+\")", "isinstance(mode, str) and set(mode) & set(\"wax\")"),
        "guard: nowhere is somewhere": (" or path == os.devnull", ""),
        "guard: up is inside": ('".." in text.split(os.sep)', "False"),
        "guard: forgets": ("self.refused.append(what)", "pass"),
        "guard: a library's own questions are told": ("if name.startswith(\"<frozen importlib\"):\n                return True", "if False:\n                return True"),
    }),
    *edits((RUN, "-k", "wherever"), "study.exercises.worker.guard", {
        "guard: all packages are NumPy": ("Guard.is_readable", '"site-packages" not in rest and "dist-packages" not in rest', "True"),
        "guard: no package below Python": ("Guard.is_readable", "any(", "all("),
        "guard: names that begin alike": ("is_below", "folder.rstrip(os.sep) + os.sep", "folder"),
    }),
    *in_worker(GIVEN, "__main__", {
        "worker: what is written to arguments": ("after = None if same(before, arguments) else data_in(arguments)", "after = None"),
        "worker: no copy to compare with": ("before = copy_of(arguments)", "before = arguments"),
        "worker: threads speak at once": ("            with self.lock:\n                try:\n                    self.send", "            if True:\n                try:\n                    self.send"),
    }),
    *in_worker(SAID, "__main__", {
        "worker: the line of a library": ("if step.tb_frame.f_code.co_filename == filename", "if True"),
        "worker: the line where it began": ("            line = step.tb_lineno\n", "            line = line or step.tb_lineno\n"),
        "worker: a notebook stops at its first error": ("failed = failed or describe(error, filename)", "raise"),
        "worker: the last of its errors": ("failed = failed or describe(error, filename)", "failed = describe(error, filename)"),
        "worker: what is printed waits": ("stream.flush()", "pass"),
    }),
    *in_worker(AROUND, "__main__", {
        "worker: random draws": ("    numpy.random.seed(0)\n", ""),
        "worker: random draws of Python": ("    random.seed(0)\n    numpy.seterr", "    numpy.seterr"),
    }),
    *in_worker(RETURNED, "returned", {
        "worker: an array's own ways": ("ndarray.view(item, ndarray)", "item"),
        "worker: a tuple's own iteration": ("list(tuple.__iter__(found))", "[item for item in found]"),
        "worker: lists of any depth": (" and len(shape) < DEPTH", ""),
        "worker: a number's own ways": ("plain = asarray(plain_number(item))", "plain = asarray(item)"),
        "worker: results of any size": ("if plain.nbytes > LARGEST", "if False"),
        "worker: objects": ("if kind == \"O\"", "if False"),
    }),
]
