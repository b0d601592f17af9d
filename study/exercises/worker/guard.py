"""What a submission may not do, by Python's audit events. The worker imports it; it uses only the standard library.

It guards against accidents and curiosity, not against malice: see `sandbox.py`.
"""
import importlib
import os
import sys

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
LARGEST_NUMBER_OF_WRITES = 32  # with the limit on a file's size, bounds the use of the disk

DELETES = {
    "shutil.rmtree": "delete", "os.remove": "delete", "os.rmdir": "delete", "os.truncate": "cut", "os.rename": "rename",
    "os.mkdir": "make",
    "os.chmod": "change", "os.chown": "change", "os.utime": "change", "os.setxattr": "change", "os.removexattr": "change",
}
LISTS = "os.listdir", "os.scandir", "os.chdir", "os.getxattr", "os.listxattr"
NEVER = {  # {prefix of events: what they mean}
    "os.link": "make a link", "os.symlink": "make a link",
    "os.fork": "start a process", "os.exec": "start a process", "os.posix_spawn": "start a process",
    "os.spawn": "start a process", "os.system": "start a process", "os.startfile": "start a process",
    "subprocess.": "start a process", "pty.": "start a process", "_posixsubprocess.": "start a process",
    "_winapi.": "start a process", "os.startfile/2": "start a process",
    "os.kill": "send a signal", "signal.": "send a signal", "socket.": "use the network", "ctypes.": "use ctypes",
    "resource.": "change its limits", "gc.": "look for objects that are not its own", "sqlite3.": "open a database",
    "cpython.": "start another interpreter", "sys.addaudithook": "hook into the audit",
    "syslog.": "write to the system's log", "fcntl.": "change a file descriptor",
    "sys.remote_exec": "run code in another process",
}
BEGINNINGS = tuple(NEVER)
MODULES = {  # that can do things without an audit event
    "_posixshmem": "share memory", "_multiprocessing": "start a process",
    "_ctypes": "use ctypes", "cffi": "use ctypes", "_sqlite3": "open a database", "_dbm": "open a database",
    "_gdbm": "open a database", "_interpreters": "start another interpreter",
    "_xxsubinterpreters": "start another interpreter", "_testcapi": "use Python's internals",
    "_testinternalcapi": "use Python's internals",
}
UNHEARD = (  # functions without audit events
    "mkfifo", "mknod", "chroot", "setpgid", "setsid", "pidfd_open", "nice", "setpriority", "setuid", "seteuid", "setreuid",
    "setresuid", "setgid", "setegid", "setregid", "setresgid", "setgroups", "initgroups", "unshare", "setns", "sync",
    "sched_setaffinity", "sched_setscheduler", "sched_setparam", "lchmod", "memfd_create", "openpty", "posix_openpt",
    "pidfd_send_signal", "fork_exec",
)


class Guard:
    """Refuses, and remembers what it refused, even if the submission catches the error.

    folder: the submission's own, to read and write; readable: folders and files of Python and NumPy.
    """

    def __init__(self, folder, readable, filename):
        self.folder, self.filename = os.path.realpath(folder), filename
        self.readable = [os.path.realpath(path) for path in readable]
        self.refused, self.writes = [], 0

    def install(self):
        for module in ("os", "posix", "signal", "_signal", "_posixsubprocess"):
            functions = vars(importlib.import_module(module))
            functions.update({name: self.refusing(f"use {name}") for name in functions if name in UNHEARD})
        sys.addaudithook(self.hear)

    def refusing(self, what):
        return lambda *arguments, **keywords: self.refuse(what)

    def hear(self, event, arguments):
        if event == "import":
            name, filename = arguments[:2]
            if what := MODULES.get(name):
                self.refuse(what, ImportError)  # which code expects that can do without it
            if filename and not self.is_readable(filename):  # an extension module of its own
                self.refuse(f"load {shown(filename)}")
        elif event == "open":
            self.opens(*arguments)
        elif event in DELETES:
            self.count()
            for path in arguments[:2] if event == "os.rename" else arguments[:1]:
                if not self.is_own(path):
                    self.refuse(f"{DELETES[event]} {shown(path)}")
        elif event in LISTS:
            if arguments and not (self.is_own(arguments[0]) or self.is_readable(arguments[0])):
                self.refuse(f"look into {shown(arguments[0])}")
        elif event.startswith(BEGINNINGS):
            self.refuse(next(what for beginning, what in NEVER.items() if event.startswith(beginning)))

    def opens(self, path, mode, flags):
        if isinstance(path, int) or path == os.devnull:
            return
        writes = isinstance(flags, int) and flags & WRITES or isinstance(mode, str) and set(mode) & set("wax+")
        if writes:
            self.count()
        is_folder = os.path.isdir(path)
        if not (self.is_own(path) or not writes and self.is_readable(path) and not is_folder):
            self.refuse(f"{'write' if writes else 'look into' if is_folder else 'read'} {shown(path)}")

    def count(self):
        self.writes += 1
        if self.writes > LARGEST_NUMBER_OF_WRITES:
            self.refuse(f"write more than {LARGEST_NUMBER_OF_WRITES} times")

    def is_own(self, path):
        return isinstance(path, int) or is_below(self.real(path), self.folder)

    def is_readable(self, path):
        """Does it belong to Python or NumPy? Other packages are often installed below Python's folder."""
        if isinstance(path, int):
            return True
        real = self.real(path)
        below = [real[len(folder):] for folder in self.readable if is_below(real, folder)]
        return any("site-packages" not in rest and "dist-packages" not in rest for rest in below)

    def real(self, path):
        text = os.fsdecode(path) if path else "."
        if not os.path.isabs(text) and ".." in text.split(os.sep):  # it may be relative to another folder, by a descriptor
            return ""
        return os.path.realpath(text)

    def refuse(self, what, error=PermissionError):
        if len(self.refused) < 20 and what not in self.refused and not self.is_importing():
            self.refused.append(what)
        raise error(f"a submission may not {what}")

    def is_importing(self):
        """Is a library being imported? It may ask for something that it can do without."""
        frame = sys._getframe()
        while frame is not None:
            name = frame.f_code.co_filename
            if name == self.filename:
                return False
            if name.startswith("<frozen importlib"):
                return True
            frame = frame.f_back
        return False


def is_below(path, folder):
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def shown(path):
    return ascii(path)[1:-1][:200] if isinstance(path, (str, bytes)) else f"descriptor {path!r}"[:50]
