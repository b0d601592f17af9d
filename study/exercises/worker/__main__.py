"""The process in which a submission runs: `python worker FOLDER REQUESTS REPLIES SITE`, started by `Sandbox`.

It loads NumPy, then the student's file, and then answers calls until it is killed. Nothing in it helps to cheat: the judge
sends inputs, gets the answers, and compares them on its side.
"""
import ast
import builtins
import faulthandler
import linecache
import os
import random
import sys
import threading
import types
from importlib.machinery import ModuleSpec, PathFinder

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

FOLDER, REQUESTS, REPLIES, SITE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
STANDARD = sys.path[1:]
sys.path.append(SITE)

import guard  # noqa: E402  all of these but NumPy are next to this file
import numpy  # noqa: E402
import wire  # noqa: E402
from numpy import ndarray  # noqa: E402
from returned import copy_of, name_of, unwrap  # noqa: E402

sys.path[:] = [*STANDARD, FOLDER]
sys.argv[:] = ["submission"]

LIBRARIES = "numpy", "scipy"  # that may be imported
PLOTS = "matplotlib", "seaborn", "plotly", "IPython", "tqdm"  # which are replaced by modules that do nothing
LONGEST_TEXT = 500

_read, _write, _exit, _type, _bytes = os.read, os.write, os._exit, type, ndarray.tobytes
_settrace, _setprofile, _stdout, _stderr = sys.settrace, sys.setprofile, sys.stdout, sys.stderr


class Channel:
    """Messages to and from the judge, one at a time: threads of the submission take turns."""

    def __init__(self):
        self.lock = threading.RLock()

    def receive(self):
        header, body = wire.lengths(self.read(wire.PREFIX.size))
        return wire.unpack(self.read(header), self.read(body), self.proxy)

    def send(self, header, tree=None):
        data = memoryview(wire.pack(header, tree))
        while data:
            data = data[_write(REPLIES, data):]

    def read(self, size):
        data = bytearray()
        while len(data) < size:
            piece = _read(REQUESTS, min(size - len(data), 2**20))
            if not piece:
                _exit(0)  # the judge is gone
            data += piece
        return data

    def proxy(self, number):
        """A function that runs in the judge's process."""

        def function(*arguments):
            with self.lock:
                try:
                    self.send({"kind": "callback", "function": number}, arguments)
                except wire.Unsendable as error:
                    raise TypeError(f"this function takes arrays and numbers, and was given {error}") from None
                header, result = self.receive()
            if header["kind"] == "raised":
                raise ValueError(header["message"])
            return result

        return function


class Imports:
    """The last finder of modules: knows where NumPy and SciPy are, and replaces plotting."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        root = name.partition(".")[0]
        if root in LIBRARIES and (found := PathFinder.find_spec(name, path or [SITE], target)):
            return found
        if root in PLOTS:
            return ModuleSpec(name, Imports, is_package=True)
        raise ModuleNotFoundError(f"only NumPy is available in exercises, not {name}; each file is judged alone, so copy "
                                  "what it needs from other files of yours into it", name=name)

    @staticmethod
    def create_module(spec):
        return Nothing(spec.name)

    @staticmethod
    def exec_module(module):
        pass


class Nothing(types.ModuleType):
    """A module for plots, a figure, an axis: nothing that is done with it has any effect."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing(name)

    def __call__(self, *arguments, **keywords):
        return arguments[0] if self.__name__ in ("tqdm", "trange") and arguments else Nothing(self.__name__)

    def __iter__(self):
        return iter((Nothing("figure"), Nothing("axes")))

    def __getitem__(self, key):
        return Nothing("item")

    def __setitem__(self, key, value):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


def set_limits(limits):
    """The limits that the system enforces. Where it cannot (macOS, in part), the judge's deadlines remain."""
    if resource is None:
        return
    megabyte = 2**20
    for name, value in (
        ("RLIMIT_CPU", limits["processor_seconds"]), ("RLIMIT_AS", limits["megabytes"] * megabyte), ("RLIMIT_CORE", 0),
        ("RLIMIT_FSIZE", limits["file_megabytes"] * megabyte), ("RLIMIT_NOFILE", 64),
        ("RLIMIT_NPROC", limits["processes"] + running()),
    ):
        try:
            kind = getattr(resource, name)
            _, hard = resource.getrlimit(kind)
            soft = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (soft, max(soft, value + 1) if name == "RLIMIT_CPU" and soft == value else soft))
        except (AttributeError, ValueError, OSError):
            pass


def running():
    """At least the number of this user's processes and threads, which all count towards the limit."""
    try:
        with open("/proc/loadavg") as file:
            return int(file.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 4096


def load(text, filename, is_notebook):
    """Run the file: (its names, the first error or None).

    In a notebook each statement runs on its own, so that one that fails, such as a comparison with another library, does
    not stop the others.
    """
    module = types.ModuleType("submission")
    module.__file__ = filename
    sys.modules["submission"] = module
    linecache.cache[filename] = (len(text), None, [line + "\n" for line in text.split("\n")], filename)
    if not is_notebook:
        exec(compile(text, filename, "exec", 0, True), vars(module))
        return vars(module), None
    failed = None
    for statement in ast.parse(text, filename).body:
        try:
            exec(compile(ast.Module([statement], []), filename, "exec", 0, True), vars(module))
        except BaseException as error:  # noqa: BLE001  all that a student's code may do
            failed = failed or describe(error, filename)
    return vars(module), failed


def describe(error, filename):
    """An exception, without running code of the student's that could do harm."""
    try:
        text = str(error)
        text = "".join(str.__getitem__(text, slice(LONGEST_TEXT)))
    except BaseException:  # noqa: BLE001
        text = "(its message cannot be read)"
    line, step = None, BaseException.__traceback__.__get__(error)
    while step is not None:
        if step.tb_frame.f_code.co_filename == filename:
            line = step.tb_lineno
        step = step.tb_next
    if line is None and isinstance(error, SyntaxError) and type(error.lineno) is int:
        line = error.lineno
    return {"type": name_of(_type(error)), "message": text, "line": line}


def answer(function, arguments):
    """(header, tree) of one call."""
    before = copy_of(arguments)
    found = function(*arguments)
    container, given, results = unwrap(found)
    after = None if same(before, arguments) else data_in(arguments)
    return {"kind": "returned", "container": container, "given": given}, [results, after]


def data_in(value):
    """The same without functions, which cannot be sent back."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(data_in, value))
    return None if callable(value) else value


def same(a, b):
    if isinstance(a, ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and _bytes(a) == _bytes(b)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a is b or a == b or a != a


class Session:
    """Answers the judge: first loads the file's text, then calls its function."""

    def __init__(self, channel, settings, watch):
        self.channel, self.settings, self.watch, self.function = channel, settings, watch, None
        self.nowhere = open(os.devnull, "w")

    def serve(self, request, tree):
        """Send the result of a request, whatever happens, and end in time even if the judge is gone."""
        faulthandler.dump_traceback_later(2 * self.settings["limits"]["total_seconds"], exit=True, file=self.nowhere)
        try:
            header, tree = self.loaded(tree) if self.function is None else answer(self.function, tree)
        except BaseException as error:  # noqa: BLE001  all that a student's code may do
            header, tree = {"kind": "raised", **describe(error, self.settings["filename"])}, None
        _settrace(None)
        _setprofile(None)
        for stream in (sys.stdout, sys.stderr, _stdout, _stderr):
            try:
                stream.flush()
            except BaseException:  # noqa: BLE001
                pass
        self.reply(header, tree, {"call": request["call"], "refused": self.watch.refused})
        faulthandler.cancel_dump_traceback_later()

    def loaded(self, text):
        settings = self.settings
        names, failed = load(_bytes(text).decode("utf-8", "surrogatepass"), settings["filename"], settings["is_notebook"])
        self.function = names.get(settings["function"])
        found = "callable" if callable(self.function) else name_of(_type(self.function))
        return {"kind": "loaded", "found": found, "failed": failed}, None

    def reply(self, header, tree, identity):
        with self.channel.lock:
            try:
                self.channel.send({**header, **identity}, tree)
            except wire.Unsendable as error:
                self.channel.send({"kind": "raised", "type": "TypeError", "message": f"it returns {error}", **identity})
            except MemoryError as error:
                self.channel.send({"kind": "raised", **describe(error, self.settings["filename"]), **identity})


def main():
    channel = Channel()
    settings, _ = channel.receive()
    set_limits(settings["limits"])
    os.chdir(FOLDER)
    numpy.random.seed(0)
    random.seed(0)
    numpy.seterr(all="ignore")
    builtins.exit = builtins.quit = sys.exit  # which `site` defines otherwise
    sys.meta_path.append(Imports)
    libraries = [os.path.join(SITE, name) for name in settings["readable"]]
    watch = guard.Guard(FOLDER, [*STANDARD, *libraries], settings["filename"])
    watch.install()
    channel.send({"kind": "ready"})

    session = Session(channel, settings, watch)
    while True:
        session.serve(*channel.receive())


if __name__ == "__main__":
    main()
