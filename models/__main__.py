"""`python -m models`: the command `minigrad`. (The one import upwards; nobody imports this file.)"""
import sys

from cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
