"""Pytest keeps the temporary files of tests in memory, if there is room.

Tests write many small files that are forced to the disk, and would wait for it half of their time.
"""

import os
from pathlib import Path

ROOM = 4 << 30
"""Free memory [bytes] that must be there. The files of two processes take less than 1 GB at any time."""


def memory_folder(folder="/dev/shm", meminfo="/proc/meminfo"):
    """Return a folder in memory that has room and may hold programs; None if this machine has none."""
    try:
        about = os.statvfs(folder)
        lines = Path(meminfo).read_text().splitlines()
    except OSError:
        return None
    available = next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
    usable = not about.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return folder if usable and min(about.f_bavail * about.f_frsize, available) >= ROOM else None
