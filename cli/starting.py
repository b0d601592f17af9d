"""The command's first half second, in which everything is imported: what stops it there ends in one line, too."""
import contextlib
import gc
import os
import signal
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Around imports: exit code 130 after Ctrl-C, 2 if they fail.

    The garbage collector never looks at what they make, neither now nor later nor at exit: it would take a quarter of the
    time.
    """
    before, is_collecting = signal.getsignal(signal.SIGINT), gc.isenabled()
    gc.disable()
    if before is signal.default_int_handler:  # its exception could come amid the start of a compiled module
        signal.signal(signal.SIGINT, _leave)
    try:
        yield
    except (ImportError, RuntimeError) as error:
        print("minigrad: error: cannot start:", " ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
    finally:
        signal.signal(signal.SIGINT, before)
        gc.freeze()
        if is_collecting:
            gc.enable()


def _leave(number: int, frame) -> None:
    os.write(2, b"minigrad: interrupted\n")
    os._exit(130)
