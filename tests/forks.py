"""Forks of the test process."""

import os
import signal
from collections.abc import Callable


def code_of_fork(work: Callable[[], int], seconds: int = 60) -> int:
    """Return what `work` returns in a forked process, the number of its exit code; -SIGALRM if it takes longer."""
    child = os.fork()
    if child == 0:
        signal.alarm(seconds)
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
