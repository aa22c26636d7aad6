"""``python -m gpu_envs`` is the console command ``gpu-envs``."""

import sys

from gpu_envs.cli import main

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Remove the working folder, which the `gpu-envs` command does not search either.
        del sys.path[0]
    sys.exit(main())
