"""`python -m minigrad`: the command, as setup.cfg names it. It lies above, where it can name all packages."""
import sys
from importlib.metadata import EntryPoint

from .packages import refuse_shadows, registered

if __name__ == "__main__":
    command = EntryPoint("minigrad", registered("console_scripts")["minigrad"], "console_scripts")
    try:
        refuse_shadows(command.module.partition(".")[0])
    except ImportError as error:
        print(f"minigrad: error: cannot start: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(command.load()())
