"""Records of the Ray clusters that `trainers.cluster.local_cluster` has started on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.terminal import shell_command
from trainers.base.serialization import parse_json, read_record, write_json

__all__ = [
    "ClusterRecord",
    "claim_folder",
    "find_records",
    "forget",
    "is_running",
    "send_signal",
    "start_time",
    "write_record",
]

RECORD = "cluster.json"  # file of a record in its folder
PLACE, PREFIX = Path("/tmp"), "gpu-envs-ray-"
"""Parent of the folders with records. It does not depend on TMPDIR: socket paths are limited to 107 characters."""


@dataclass(frozen=True)
class ClusterRecord:
    """A Ray cluster on this machine, and its processes."""

    folder: str
    """Folder of Ray's logs and sockets."""
    address: str
    """Address of the cluster, HOST:PORT."""
    dashboard: str
    """URL of Ray's dashboard; empty without one."""
    nodes: int
    """Number of nodes, the head node included."""
    token: bool
    """Whether clients need a token."""
    keeper: tuple[int, int]
    """Process id and start time of the process that owns the cluster; the id alone could be reused."""
    processes: tuple[tuple[int, int], ...]
    """Process ids and start times of Ray's processes."""

    @property
    def is_running(self) -> bool:
        """Whether a process of the cluster is running."""
        return any(map(is_running, (self.keeper, *self.processes)))

    @property
    def logs(self) -> str:
        """Folder of Ray's log files."""
        return f"{self.folder}/ray/session_latest/logs/"


def find_records() -> list[ClusterRecord]:
    """Return the records of this user's clusters on this machine that were not stopped in order."""
    return list(_record_files().values())


def _record_files() -> dict[Path, ClusterRecord]:
    """Return the records by file."""
    found: dict[Path, ClusterRecord] = {}
    for file in sorted(PLACE.glob(f"{PREFIX}*/{RECORD}")):
        with contextlib.suppress(FileNotFoundError):  # the cluster has just ended
            if file.lstat().st_uid == os.getuid():  # other users can write to /tmp, too
                found[file] = _read_record(file)
    return found


def _read_record(file: Path) -> ClusterRecord:
    text = file.read_text(encoding="utf-8", errors="replace")
    record = read_record(ClusterRecord, str(file), parse_json(text, str(file)))
    if any(len(each) != 2 or each[0] < 1 for each in (record.keeper, *record.processes)):
        raise CheckpointError(f"{file}: expected pairs of a process id and a start time; remove the file")
    return replace(record, processes=tuple((pid, start) for pid, start in record.processes))


def write_record(record: ClusterRecord) -> None:
    """Write a record to the folder of its cluster, or to a new folder if `find_records` does not search there."""
    place = Path(record.folder)
    if place.parent != PLACE or not place.name.startswith(PREFIX):
        place = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PLACE))
    write_json(place / RECORD, asdict(record))


def forget(folder: Path) -> None:
    """Remove the record of the cluster in a folder, if any, and the folder that only holds the record."""
    for file, record in _record_files().items():
        if record.folder == str(folder):
            file.unlink()
            if file.parent != folder:
                file.parent.rmdir()


def claim_folder(folder: Path) -> None:
    """Remove the record of a killed cluster in a folder.

    Raises:
        ConfigError: A cluster runs in the folder.
    """
    for record in find_records():
        if record.folder == str(folder) and record.is_running:
            raise ConfigError(
                f"temp_dir = {folder}: the cluster at {record.address} uses this folder; choose another, or stop it "
                f"with {shell_command('gpu-envs', 'cluster', 'stop', record.address)}"
            )
    forget(folder)


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot; 0 if there is no such process, or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def is_running(process: tuple[int, int]) -> bool:
    """Return whether the process with this id and start time is running."""
    return process[1] != 0 and start_time(process[0]) == process[1]


def send_signal(process: tuple[int, int], number: signal.Signals) -> None:
    """Send a signal to the process with this id and start time, if it is running."""
    if is_running(process):
        os.kill(process[0], number)
