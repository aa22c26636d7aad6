"""``python -m benchmarks.gpu``."""

import sys

from benchmarks.gpu.report import main

sys.exit(main(sys.argv[1:]))
