"""`python -m minigrad`: the command."""
import sys

from minigrad.command import main

if __name__ == "__main__":
    sys.exit(main())
