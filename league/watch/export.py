"""Export of a run as one file: the viewer's page with all answers, and rollouts if any are recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.progress import Progress
from league.watch.api import DEFAULT_WORLDS, ViewerApi, encode_json, rollout_path
from league.watch.rollouts import record_rollout
from league.watch.sources.base import RunSnapshot
from trainers.base.serialization import write_text

PAGE = Path(__file__).with_name("static") / "index.html"
"""Built page, from the sources in `page`."""
MAX_ROLLOUTS = 32
"""Maximum number of rollouts in a file."""
MAX_BYTES = 24 * 2**20
"""Maximum size of all rollouts in a file [byte]; further rollouts are left out."""
ROLLOUT_BUDGET = 4 * 2**20
"""Maximum size of a rollout's arrays [byte]."""
TITLE = "<title>gpu-envs watch</title>"
"""Title of the page, which an export replaces by the name of the run."""


def read_page() -> str:
    """Return the page, a single HTML file; raise ConfigError if it is not built."""
    try:
        return PAGE.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"{PAGE}: the viewer's page is not there; build it in league/watch/page, see its README"
        ) from None


def run_snapshot(api: ViewerApi) -> tuple[RunSnapshot, int]:
    """Return the latest snapshot of a run and its version; raise ConfigError for several runs."""
    snapshot, version = api.latest.get()
    if not isinstance(snapshot, RunSnapshot):
        raise ConfigError(
            f"--export: expected a training or a league, got several runs in {api.latest.source.path}; export one of "
            "them, or write figures with gpu-envs experiment report (of an experiment) or gpu-envs compare (of seeds)"
        )
    return snapshot, version


def export(api: ViewerApi, file: Path, progress: Progress | None = None) -> tuple[int, list[str]]:
    """Write the page with the answers and rollouts of a run.

    Args:
        api: Answers about the run.
        file: File to write.
        progress: Called with the number of recorded rollouts.

    Returns:
        Number of rollouts in the file, and a line for each rollout that could not be recorded.

    Raises:
        ConfigError: The page is not built, or incomplete; or there are several runs.
    """
    _page_parts()  # before rollouts, which take a while
    snapshot, version = run_snapshot(api)
    rollouts: dict[str, bytes] = {}
    size, trouble = 0, []
    for names in snapshot.matchups[:MAX_ROLLOUTS]:
        try:
            played = record_rollout(snapshot.stage, names, 0, DEFAULT_WORLDS, ROLLOUT_BUDGET)
        except CheckpointError as error:  # the training has removed the checkpoint meanwhile
            trouble.append(str(error))
            continue
        except ConfigError as error:  # it concerns all rollouts
            trouble.append(str(error))
            break
        if [seat["policy"] for seat in played["seats"]] != [*names]:
            trouble.append(f"{' against '.join(names)}: the training has removed the checkpoint")
            continue
        answer = encode_json({**played, "version": version})
        size += len(answer)
        if rollouts and size > MAX_BYTES:
            break
        rollouts[rollout_path(names, 0, DEFAULT_WORLDS)] = answer
        if progress is not None:
            progress(len(rollouts), " against ".join(names))
    run = api.run(snapshot, version)
    write_page(file, run["name"], {**snapshot.answers, "run": run}, rollouts, version)
    return len(rollouts), trouble


def write_page(
    file: Path,
    name: str,
    answers: Mapping[str, dict[str, Any]],
    rollouts: Mapping[str, bytes] | None = None,
    version: int = 1,
) -> None:
    """Write the page with answers about a run.

    Args:
        file: File to write; its folder is created.
        name: Name of the run.
        answers: Answers, see `league.watch.sources.base.Snapshot`. The tables of a league are also written as HTML,
            for browsers without JavaScript.
        rollouts: Encoded rollouts by path; None: the page has no rollouts.
        version: Version of the answers.

    Raises:
        ConfigError: The page is not built, or incomplete.
    """
    start, end = _page_parts()
    answers = {**answers, "run": {"name": name, **answers["run"], "writing": False, "problem": None}}
    encoded = {f"api/{key}": encode_json({**answer, "version": version}) for key, answer in answers.items()}
    encoded |= rollouts or {}
    recorded = ",\n".join(f"{json.dumps(path)}:{answer.decode()}" for path, answer in encoded.items())
    recorded = recorded.replace("<", "\\u003c")  # no content can end the element
    script = f'<script type="application/json" id="recorded">{{{recorded}}}</script>\n'
    start = start.replace(TITLE, f"<title>{_text(name)}</title>", 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, start + _static_report(answers) + script + end)


def _page_parts() -> tuple[str, str]:
    """Return the page up to the end of its body, and the rest."""
    page = read_page()
    end = page.rfind("</body>")
    if end < 0:
        raise ConfigError(f"{PAGE}: expected a page with a body that ends, got none; build it again")
    return page[:end], page[end:]


def _static_report(answers: Mapping[str, dict[str, Any]]) -> str:
    """Return the tables of a league as HTML, which the script of the page replaces; empty for a training."""
    if "league" not in answers:
        return ""
    name, env_id, algorithm = (_text(answers["run"][key]) for key in ("name", "env_id", "algorithm"))
    tables = "\n".join(_table(**table) for table in answers["league"]["tables"])
    return f'<section id="report">\n<h1>{name}</h1>\n<p>{env_id}, {algorithm}</p>\n{tables}\n</section>\n'


def _table(title: str, head: list[str], rows: list[list[str]], numeric: list[bool]) -> str:
    def cells(tag: str, row: list[str]) -> str:
        classes = (' class="number"' if is_number else "" for is_number in numeric)
        return "".join(f"<{tag}{name}>{_text(cell)}</{tag}>" for name, cell in zip(classes, row, strict=True))

    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if head else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    table = f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'
    return f'<section class="panel"><h2>{_text(title)}</h2>{table}</section>'


def _text(text: str) -> str:
    """Escape text for HTML; bytes of a file name that are not UTF-8 become question marks."""
    return escape(text.encode(errors="replace").decode())
