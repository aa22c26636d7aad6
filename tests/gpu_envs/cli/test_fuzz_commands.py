"""Wrong values for every option of every command: exit code 2 and one line, or it works."""

import contextlib
import io
import itertools

import pytest

from gpu_envs.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
TEXTS = ("", "x", "-1", "0", "1.5", "nan", "inf", "None", "True", "[]", "{}", "a\nb", "2147483648", str(2**70), "é")
"""Values of options."""

RUN = [
    "--num-envs=2",
    "--total-steps=8",
    "--learner.rollout-length=4",
    "--eval-episodes=0",
    "--no-video",
    "--until-return=0",
]
COMMANDS = {
    "list": ([], ["{}"]),
    "check": (["Nothing-v0"], ["--env-arg={}", "--env-arg=max_cycles={}"]),
    "bench": (
        ["ClimbingGame-v0", "--num-envs=2", "--seconds=0.01"],
        ["--env-arg={}", "--env-arg=num_envs={}", "--device={}", "--num-envs={}", "--num-threads={}",
         "--schedule={}", "--seconds={}"],
    ),
    "render": (
        ["ClimbingGame-v0", "--num-envs=2", "--steps=1", "--size=8", "--output=p.png"],
        ["--env-arg={}", "--device={}", "--output={}", "--num-envs={}", "--steps={}", "--trails={}", "--size={}",
         "--seed={}",
         "--checkpoint={}", "{}"],
    ),
    "new": (["some_game"], ["--folder={}/{}", "{}"]),
    "train": (
        ["ClimbingGame-v0", *RUN, "--run-dir=run"],
        ["--env-arg={}", "--algorithm={}", "--sharing={}", "--policy={}", "--num-envs={}", "--total-steps={}",
         "--seed={}",
         "--device={}", "--resume={}", "--checkpoint-interval={}", "--keep-last-checkpoints={}", "--eval-episodes={}",
         "--eval-opponents={}", "--patience={}", "--until-return={}", "--num-threads={}", "--num-workers={}",
         "--learner.network={}",
         "--learner.hidden_sizes={}", "--learner.activation={}", "--learner.rollout-length={}", "--learner.gamma={}",
         "--learner.num_epochs={}", "--learner.num_minibatches={}", "--learner.learning-rate={}",
         "--learner.clip_range-range-vf={}",
         "{}"],
    ),
    "eval": (
        ["RUN", "--episodes=2"],
        ["--opponents={}", "--env-arg={}", "--env-id={}", "--episodes={}", "--seed={}", "--device={}", "--output={}",
         "{}"],
    ),
    "export": (["RUN", "--output=p.pt2"], ["--policy={}", "--env-id={}", "--output={}"]),
    "clone": (["nothing"], ["--run-dir={}", "--seed={}", "{}"]),
    "tune": (["Nothing-v0"], ["--run-dir={}", "--seed={}", "{}"]),
    "league": (["Nothing-v0"], ["--run-dir={}", "--seed={}", "{}"]),
    "play": (["Nothing-v0"], ["--as={}", "--opponents={}", "--env-arg={}", "--seed={}", "--port={}", "{}"]),
    "watch": (["nothing"], ["--port={}", "{}"]),
}  # fmt: skip
WORK = ("list", "bench", "render", "new", "train", "eval", "export")
"""Commands whose usual arguments work; the others need files or hours."""
# Options whose large values are legal but take long.
LONG = ("--total-steps", "--seconds", "--steps", "--learner.num_epochs", "--eval-episodes", "--episodes")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run of ``gpu-envs train``."""
    folder = tmp_path_factory.mktemp("run") / "run"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["train", "ClimbingGame-v0", *RUN, f"--run-dir={folder}"]) in (0, 1)
    return str(folder)


def fault(words):
    """Return what is wrong with the end of a command; None for exit code 0 or 1, or 2 with one line."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except SystemExit as error:
        code = error.code
    except BaseException as error:  # noqa: BLE001  # any other exception is a finding
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    printed = [line for line in err.getvalue().splitlines() if line.strip() and "\r" not in line]
    if code == 2 and not (printed and printed[-1].startswith("gpu-envs")):
        return f"exit code 2 and {err.getvalue()[-200:]!r}"
    if code == 2 and sum(line.startswith("gpu-envs: error: ") for line in printed) != 1:
        return f"exit code 2 and {len(printed)} lines: {err.getvalue()[:200]!r}"
    return None if code in (0, 1, 2) else f"exit code {code}: {err.getvalue()[-200:]!r}"


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_values_of_options_print_one_line(command, tmp_path, monkeypatch, run):
    usual, options = COMMANDS[command]
    usual = [run if word == "RUN" else word for word in usual]
    monkeypatch.chdir(tmp_path)
    if command in WORK:
        assert main([command, *usual]) in (0, 1)
    faults = []
    for number, (option, text) in enumerate(itertools.product(options, TEXTS)):
        if option.partition("=")[0] in LONG and text in ("2147483648", str(2**70)):
            continue
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        argument = option.replace("{}", text)
        wrong = fault([command, *([argument, *usual[1:]] if option == "{}" and usual else [*usual, argument])])
        if wrong is not None:
            faults.append(f"gpu-envs {command} {argument!r}: {wrong}")
    assert not faults, f"{len(faults)} commands end otherwise:\n" + "\n".join(faults)
