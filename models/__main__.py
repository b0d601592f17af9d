"""`python -m models` is the command `minigrad`."""
import sys

from models.cli import main

if __name__ == "__main__":
    sys.exit(main())
