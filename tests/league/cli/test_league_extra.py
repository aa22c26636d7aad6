"""Test of the message about a missing extra."""

import re
import subprocess
import sys


def test_missing_scipy_names_the_extra():
    code = (
        "import importlib.util as u, sys\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'scipy' else found(name, *rest)\n"
        "from gpu_envs.cli import main\n"
        "sys.exit(main(['league', 'train', 'KuhnPoker-v0']))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert re.fullmatch(
        r"gpu-envs: error: leagues need scipy: pip install .*('scipy>=[\d.]+'|\[league\]).*\n", done.stderr
    )
