"""Export of a run as one file: the viewer's page with all answers and some rollouts."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.progress import Progress
from league.watch.api import DEFAULT_WORLDS, ViewerApi, encode_json, rollout_path
from league.watch.rollouts import record_rollout
from trainers.base.serialization import write_text

__all__ = ["MAX_BYTES", "MAX_ROLLOUTS", "PAGE", "ROLLOUT_BUDGET", "export", "read_page"]

PAGE = Path(__file__).with_name("static") / "index.html"
"""Built page, from the sources in `page`."""
MAX_ROLLOUTS = 32
"""Maximum number of rollouts in a file."""
MAX_BYTES = 24 * 2**20
"""Maximum size of all rollouts in a file [byte]; further rollouts are left out."""
ROLLOUT_BUDGET = 4 * 2**20
"""Maximum size of a rollout's arrays [byte]."""


def read_page() -> str:
    """Return the page, a single HTML file; raise ConfigError if it is not built."""
    try:
        return PAGE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{PAGE}: the viewer's page is not there; build it in league/watch/page, see its README"
        ) from None


def export(api: ViewerApi, file: Path, progress: Progress | None = None) -> tuple[int, list[str]]:
    """Write the page with the answers and rollouts of a run.

    Args:
        api: Answers about the run.
        file: File to write.
        progress: Called with the number of recorded rollouts.

    Returns:
        Number of rollouts in the file, and a line for each rollout that could not be recorded.

    Raises:
        ConfigError: The page is not built, or incomplete.
    """
    html = read_page()
    end = html.rfind("</body>")
    if end < 0:
        raise ConfigError(f"{PAGE}: expected a page with a body that ends, got none; build it again")
    snapshot, version = api.latest.get()
    answers = {f"api/{name}": encode_json(api.snapshot_answer(name, snapshot, version)) for name in snapshot.answers}
    answers["api/run"] = encode_json({**api.run(snapshot, version), "writing": False, "problem": None})
    size, played, trouble = 0, 0, []
    for names in snapshot.matchups[:MAX_ROLLOUTS]:
        try:
            answer = encode_json(
                {**record_rollout(snapshot.stage, names, 0, DEFAULT_WORLDS, ROLLOUT_BUDGET), "version": version}
            )
        except CheckpointError as error:  # the training has removed the checkpoint meanwhile
            trouble.append(str(error))
            continue
        size += len(answer)
        if played and size > MAX_BYTES:
            break
        played += 1
        answers[rollout_path(names, 0, DEFAULT_WORLDS)] = answer
        if progress is not None:
            progress(played, " against ".join(names))
    recorded = ",\n".join(f"{json.dumps(path)}:{answer.decode()}" for path, answer in answers.items())
    recorded = recorded.replace("<", "\\u003c")  # no content can end the element
    script = f'<script type="application/json" id="recorded">{{{recorded}}}</script>\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, html[:end] + script + html[end:])
    return played, trouble
