"""Where a command may write."""
import pathlib
from collections.abc import Callable

from models.commands.shared import UsageError, check_writable


def check_place(path: pathlib.Path, flag: str, is_ours: Callable[[pathlib.Path], bool] | None = None,
                force: bool = False) -> None:
    """UsageError, before any work, if no file can be written there, or it would replace one that is not ours.

    Without `is_ours`, no file is replaced, and there is no --force to do it.
    """
    if path.exists() and not path.is_file():
        kind = "folder" if path.is_dir() else "pipe, socket or device"
        raise UsageError(f"{path} is a {kind}; name a file with {flag}")
    check_writable(path.parent, flag)
    try:
        if path.is_file() and not force and not (is_ours and is_ours(path)):
            more = ", or overwrite it with --force" if is_ours else ""
            raise UsageError(f"{path} already exists; choose another name with {flag}{more}")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}); choose another name with {flag}") from None
