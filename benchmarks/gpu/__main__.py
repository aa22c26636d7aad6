"""``python -m benchmarks.gpu``."""

import sys

from benchmarks.gpu.gpu_report import main

sys.exit(main(sys.argv[1:]))
