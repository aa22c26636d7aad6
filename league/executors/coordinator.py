"""The coordinator of a run: submits its tasks, and commits their results once and in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from league.executors.tasks import Executor, LocalExecutor, RemoteTask
from league.storage.run_store import RunStore

GATHER = 0.1
"""Time in which further results are awaited, so that results in quick succession are committed together [s]."""


def gather(executor: Executor, tasks: Sequence[RemoteTask]) -> dict[str, Any]:
    """Run tasks without a store and return their results by key. The executor must have no other tasks."""
    for task in tasks:
        executor.submit(task)
    try:
        return dict(result for _ in tasks if (result := executor.next()))
    except BaseException:
        executor.cancel()
        raise


@dataclass
class _Submission:
    """A submitted task and what follows its result."""

    key: str
    commit: Callable[[Any], None] | None
    """None if the step of the task is already committed."""
    then: Callable[[], None] | None
    result: Any = None
    finished: bool = False


class Coordinator:
    """Submit the tasks of a run to an executor and commit their results.

    Workers finish tasks in any order. Results of one lane are committed in the order of submission, so that a run does
    not depend on the number of workers and their speed. Lanes do not wait for each other. A task whose key is done in
    the store does not run again, and a duplicate result is ignored.
    """

    def __init__(self, store: RunStore, executor: Executor | None = None) -> None:
        """Create a coordinator; without an executor, tasks run in this process."""
        self.store: RunStore = store
        self.executor: Executor | LocalExecutor = executor or LocalExecutor()
        self._lanes: dict[str, deque[_Submission]] = {}
        self._submissions: dict[str, _Submission] = {}

    def home(self, device: str) -> str:
        """Return the device on which this process keeps the policies of a run whose tasks compute on `device`.

        Raises:
            DeviceError: The workers have no such device.
        """
        if not self.executor.remote:
            return device
        self.executor.device(device)
        return "cpu"

    def submit(
        self,
        task: RemoteTask,
        commit: Callable[[Any], None],
        then: Callable[[], None] | None = None,
        lane: str = "learn",
    ) -> None:
        """Submit a task, unless it is done or already submitted.

        Args:
            task: Task, whose key is the name of the step in which `commit` writes.
            commit: Called with the result in this process; it writes in `store.step(task.key)`.
            then: Called after the commit, in the order of the lane; also if the task was done before.
            lane: Name of the lane whose order the commit keeps.
        """
        if task.key in self._submissions:
            return
        done = self.store.done(task.key)
        submission = _Submission(task.key, None if done else commit, then, finished=done)
        self._submissions[task.key] = submission
        self._lanes.setdefault(lane, deque()).append(submission)
        if not done:
            self.executor.submit(task)

    def wait(self, lane: str | None = None, *, once: bool = False) -> None:
        """Wait until all tasks of a lane, and those that follow from them, are committed; None: of all lanes.

        Args:
            lane: Name of the lane.
            once: Wait only for the next result of any lane, and commit what it completes.
        """
        try:
            self._commit()
            while once or self._open(lane):
                try:
                    self._note(self.executor.next())
                    until = time.monotonic() + (0.0 if once else GATHER)
                    while self.executor.pending:  # gather what finishes soon
                        complete = all(submission.finished for submission in self._open(lane))
                        result = self.executor.next(0.0 if complete else max(0.0, until - time.monotonic()))
                        if result is None:
                            break
                        self._note(result)
                finally:  # results are kept even if a later task fails
                    self._commit()
                if once:
                    break
        except BaseException:
            self.cancel()
            raise

    def _open(self, lane: str | None) -> list[_Submission]:
        """Return the submissions of a lane, or of all lanes, that are not committed."""
        lanes = [submissions for name, submissions in self._lanes.items() if lane in (None, name)]
        return [submission for submissions in lanes for submission in submissions]

    def _note(self, result: tuple[str, Any] | None) -> None:
        """Record a result; one that arrives a second time is ignored."""
        submission = self._submissions.get(result[0]) if result is not None else None
        if result is not None and submission is not None and not submission.finished:
            submission.result, submission.finished = result[1], True

    def _commit(self) -> None:
        """Commit the finished tasks at the head of each lane, in one transaction."""
        if not any(lane and lane[0].finished for lane in self._lanes.values()):
            return
        with self.store.together():
            for lane in list(self._lanes.values()):
                while lane and lane[0].finished:
                    submission = lane.popleft()
                    if submission.commit is not None:
                        submission.commit(submission.result)
                    del self._submissions[submission.key]
                    if submission.then is not None:
                        submission.then()
            self._lanes = {name: lane for name, lane in self._lanes.items() if lane}

    def cancel(self) -> None:
        """Cancel all tasks that are not committed."""
        self._lanes.clear()
        self._submissions.clear()
        self.executor.cancel()
