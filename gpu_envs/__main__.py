"""``python -m gpu_envs`` is the console command ``gpu-envs``."""

import sys

from gpu_envs.cli import main

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the working folder, in which `gpu-envs` does not search for modules either
    sys.exit(main())
