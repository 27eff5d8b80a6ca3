"""``python -m flopgap``: the command ``flopgap``, also where the directory of scripts is not in the search path."""

import sys

from .commands import flopgap

if __name__ == "__main__":
    sys.exit(flopgap())
