"""A run as one file to keep: the viewer's page with all answers and some rollouts in it."""

from __future__ import annotations

import json
from pathlib import Path

from gpu_envs.errors import CheckpointError, ConfigError
from league.watch.api import WORLDS, Api, encoded, rollout_path
from league.watch.rollouts import record
from trainers.files import write_text
from trainers.logs import Progress

PAGE = Path(__file__).with_name("static") / "index.html"
"""Built from the sources in `page`."""
ROLLOUTS = 32
"""In a file, at most."""
BYTES = 24 * 2**20
"""Of all rollouts in a file; what would be more is left out."""
BUDGET = 4 * 2**20
"""Bytes of arrays in each of them."""


def page() -> str:
    """The page, which is one file; ConfigError where it has not been built."""
    try:
        return PAGE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{PAGE}: the viewer's page is not there; build it in league/watch/page, see its README"
        ) from None


def export(api: Api, file: Path, progress: Progress | None = None) -> tuple[int, list[str]]:
    """Writes the page with what there is to see of a run.

    Args:
        api: Answers.
        file: To write.
        progress: Called with the number of rollouts played so far.

    Returns:
        How many rollouts are in it, and a line about each that could not be played.

    Raises:
        ConfigError: The page has not been built, or not as it should be.
    """
    html = page()
    end = html.rfind("</body>")
    if end < 0:
        raise ConfigError(f"{PAGE}: expected a page with a body that ends, got none; build it again")
    snapshot, version = api.latest.get()
    answers = {f"api/{name}": encoded(api.told(name, snapshot, version)) for name in snapshot.answers}
    answers["api/run"] = encoded({**api.run(snapshot, version), "writing": False, "problem": None})
    size, played, trouble = 0, 0, []
    for names in snapshot.matchups[:ROLLOUTS]:
        try:
            answer = encoded({**record(snapshot.stage, names, 0, WORLDS, BUDGET), "version": version})
        except CheckpointError as error:  # the run goes on, and has removed it meanwhile
            trouble.append(str(error))
            continue
        size += len(answer)
        if played and size > BYTES:
            break
        played += 1
        answers[rollout_path(names, 0, WORLDS)] = answer
        if progress is not None:
            progress(played, " against ".join(names))
    recorded = ",\n".join(f"{json.dumps(path)}:{answer.decode()}" for path, answer in answers.items())
    recorded = recorded.replace("<", "\\u003c")  # nothing in it ends the element
    script = f'<script type="application/json" id="recorded">{{{recorded}}}</script>\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, html[:end] + script + html[end:])
    return played, trouble
