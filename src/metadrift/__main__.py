"""`python -m metadrift`, which is also what torchrun starts."""

import sys

from metadrift.cli import main

if __name__ == "__main__":
    sys.exit(main())
