"""`python -m models`: the command `minigrad`."""
import sys

from cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
