"""``python -m gpu_envs`` is the console command ``gpu-envs``."""

import sys

from gpu_envs.cli import main

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The working folder, in which `gpu-envs` does not search either. Imports up to here have searched it.
        del sys.path[0]
    sys.exit(main())
