"""The command `minigrad`, and `python -m models`."""
import os
import sys

from models.starting import starting


def main() -> int:
    """Import the command, and run it; its exit code."""
    if sys.stderr is None:  # closed, by `2>&-`
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        print("minigrad: error: the output is closed; send it to a file, or to /dev/null", file=sys.stderr)
        return 2
    with starting():
        from models.cli import main as run_command
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
