"""Wrong values for every option of every command: exit code 2 and one line, or it works."""

import contextlib
import io
import itertools

import pytest
from fuzz import TEXTS

from gpu_envs.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RUN = [
    "--num-envs=2",
    "--total-steps=8",
    "--learner.rollout-length=4",
    "--eval-episodes=0",
    "--no-video",
    "--until-return=0",
]  # who asks for a goal waits for no pictures
COMMANDS = {
    "list": ([], ["{}"]),
    "check": (["Nothing-v0"], ["--env={}", "--env=max_cycles={}"]),
    "bench": (
        ["ClimbingGame-v0", "--num-envs=2", "--seconds=0.01"],
        ["--env={}", "--env=num_envs={}", "--device={}", "--num-envs={}", "--threads={}",
         "--schedule={}", "--seconds={}"],
    ),
    "render": (
        ["ClimbingGame-v0", "--worlds=2", "--steps=1", "--size=8", "--out=p.png"],
        ["--env={}", "--device={}", "--out={}", "--worlds={}", "--steps={}", "--trails={}", "--size={}", "--seed={}",
         "--checkpoint={}", "{}"],
    ),
    "new": (["some_game"], ["--folder={}/{}", "{}"]),
    "train": (
        ["ClimbingGame-v0", *RUN, "--out=run"],
        ["--env={}", "--algorithm={}", "--sharing={}", "--policy={}", "--num-envs={}", "--total-steps={}", "--seed={}",
         "--device={}", "--resume={}", "--checkpoint-every={}", "--keep-last={}", "--eval-episodes={}",
         "--eval-against={}", "--patience={}", "--until-return={}", "--threads={}", "--shards={}", "--learner.body={}",
         "--learner.hidden={}", "--learner.activation={}", "--learner.rollout-length={}", "--learner.gamma={}",
         "--learner.epochs={}", "--learner.minibatches={}", "--learner.learning-rate={}", "--learner.clip-value={}",
         "{}"],
    ),
    "eval": (
        ["RUN", "--episodes=2"],
        ["--against={}", "--env={}", "--id={}", "--episodes={}", "--seed={}", "--device={}", "--out={}", "{}"],
    ),
    "export": (["RUN", "p.pt2"], ["--policy={}", "--id={}", "{}"]),
    "clone": (["nothing"], ["--out={}", "--seed={}", "{}"]),
    "tune": (["Nothing-v0"], ["--out={}", "--seed={}", "{}"]),
    "league": (["Nothing-v0"], ["--out={}", "--seed={}", "{}"]),
    "watch": (["nothing"], ["--port={}", "{}"]),
    "cluster": ([], ["{}"]),
}  # fmt: skip
WORK = ("list", "bench", "render", "new", "train", "eval", "export")
"""Commands whose usual words work; the others need files or hours."""
# Options whose large values are legal, and take their time.
LONG = ("--total-steps", "--seconds", "--steps", "--learner.epochs", "--eval-episodes", "--episodes")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with a run of ``gpu-envs train``."""
    folder = tmp_path_factory.mktemp("run") / "run"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", "ClimbingGame-v0", *RUN, f"--out={folder}"]) in (0, 1)
    return str(folder)


def fault(words):
    """What is wrong with how a command ended; None: exit code 0 or 1 (a goal was missed), or 2 and one line."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001  # any other end is a finding
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    told = [line for line in err.getvalue().splitlines() if line.strip() and "\r" not in line]
    if code == 2 and not (told and told[-1].startswith("gpu-envs")):
        return f"exit code 2 and {err.getvalue()[-200:]!r}"
    if code == 2 and sum(line.startswith("gpu-envs: error: ") for line in told) != 1:
        return f"exit code 2 and {len(told)} lines: {err.getvalue()[:200]!r}"
    return None if code in (0, 1, 2) else f"exit code {code}: {err.getvalue()[-200:]!r}"


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, tmp_path, monkeypatch, run):
    usual, options = COMMANDS[command]
    usual = [run if word == "RUN" else word for word in usual]
    monkeypatch.chdir(tmp_path)
    if command in WORK:
        assert main([command, *usual]) in (0, 1)
    found = []
    for number, (option, text) in enumerate(itertools.product(options, TEXTS)):
        if option.partition("=")[0] in LONG and text in ("2147483648", str(2**70)):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        given = option.replace("{}", text)
        wrong = fault([command, *([given, *usual[1:]] if option == "{}" and usual else [*usual, given])])
        if wrong is not None:
            found.append(f"gpu-envs {command} {given!r}: {wrong}")
    assert not found, f"{len(found)} commands end otherwise:\n" + "\n".join(found)
