"""``python -m tests.doctor``."""

import sys

from tests.doctor.benchmark import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
