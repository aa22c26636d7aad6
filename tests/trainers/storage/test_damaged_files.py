"""Damaged files of a run: every command says so in one line, with exit code 2, and leaves the run as it is."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import torch

from gpu_envs.cli import dispatch
from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.factory import make_core
from league.watch.sources.training import TrainingRun
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.base.serialization import read_tensors, write_tensors
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import record_policies
from trainers.models.policy import PolicySpec
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, recording_files
from trainers.storage.checkpoint import CheckpointManifest

LAST = "checkpoints/000000002/"
MANIFEST, STATE = f"{LAST}manifest.json", f"{LAST}state.safetensors"
SPEC, WEIGHTS = f"{LAST}policy-agent.json", f"{LAST}policy-agent.safetensors"


Damage = Callable[[Path], None]
WRONG = (None, True, "x", 5, 1.5, [], {}, [None], [[1]], {"a": []})
"""Values of all kinds of JSON."""
COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "eval": lambda run: ["eval", str(run), "--episodes", "2", "--device", "cpu"],
    "export": lambda run: ["export", str(run), "--output", str(run.parent / "a.pt2")],
    "render": lambda run: [
        "render", "CartPole-v1", "--checkpoint", str(run), "--output", str(run.parent / "a.png"),
        "--num-envs", "1", "--steps", "1", "--device", "cpu",
    ],
    "clone": lambda run: ["clone", str(run), "--device", "cpu", "--run-dir", str(run.parent / "clone")],
    "resume": lambda run: ["train", "--resume", str(run), "--total-steps", "48", "--no-video"],
}  # fmt: skip
READERS: dict[str, Callable[[Path], Any]] = {
    "watch": lambda run: TrainingRun(run).read(),
    "load": checkpoint.load,
    "load_policy": checkpoint.load_policy,
}
PLAYS = ("eval", "export", "render")
TAKES_RUN = (*PLAYS, "resume")
ALL = (*TAKES_RUN, *READERS)


def written(content: bytes) -> Damage:
    return lambda file: file.write_bytes(content)


def to_bytes(change: Callable[[bytes], bytes]) -> Damage:
    return lambda file: file.write_bytes(change(file.read_bytes()))


def with_field(keys: tuple[str | int, ...], value: Any) -> Damage:
    """Write a value into a JSON file; text that starts with "raw:" is written without encoding."""

    def damage(file: Path) -> None:
        data = json.loads(file.read_text())
        inner = data
        for name in keys[:-1]:
            inner = inner[name]
        inner[keys[-1]] = "@" if isinstance(value, str) and value.startswith("raw:") else value
        text = json.dumps(data)
        file.write_text(text.replace('"@"', value.removeprefix("raw:"), 1) if isinstance(value, str) else text)

    return damage


def without_field(keys: tuple[str | int, ...]) -> Damage:
    def damage(file: Path) -> None:
        data = json.loads(file.read_text())
        inner = data
        for name in keys[:-1]:
            inner = inner[name]
        del inner[keys[-1]]
        file.write_text(json.dumps(data))

    return damage


def with_tensor(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    def damage(file: Path) -> None:
        tensors = read_tensors(file)
        write_tensors(file, {**tensors, name: change(tensors[name])})

    return damage


def signed(damage: Damage) -> Damage:
    """Return a damage with matching digests in the manifest."""

    def change(file: Path) -> None:
        damage(file)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        keys = ("sha256",) if file.name == recording_files.STEPS else ("sha256", file.name)
        with_field(keys, digest)(file.with_name("manifest.json"))

    return change


BYTES: dict[str, Damage] = {
    "truncated": to_bytes(lambda content: content[: len(content) // 2]),
    "empty": written(b""),
    "NUL": to_bytes(lambda content: bytes(len(content))),
    "not UTF-8": to_bytes(lambda content: content[:20] + b"\xff\xfe" + content[20:]),
}
JSON: dict[str, Damage] = {
    **BYTES,
    "list": written(b"[]"),
    "number": written(b"1"),
    "nested": written(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "nested lists": written(b"[" * 100_000 + b"]" * 100_000),
}
TABLE: dict[str, bytes] = {
    "words": b"iteration,steps,a\r\n1,many,2\r\n",
    "nan": b"iteration,steps,a\r\n1,16,nan\r\n",
    "infinity": b"iteration,steps,a\r\n1,16,inf\r\n",
    "NUL": b"iteration,steps,a\r\n1,16,\0\r\n",
    "negative": b"iteration,steps,a\r\n-1,16,2\r\n",
    "5,000 digits": b"iteration,steps,a\r\n" + b"1" * 5000 + b",16,2\r\n",
    "huge field": b"iteration,steps,a\r\n1,16," + b"1" * 200_000 + b"\r\n",
    "no iteration": b"steps,a\r\n16,2\r\n",
    "no header": b"1,16,2\r\n",
    "empty line": b"\r\niteration,steps,a\r\n1,16,2\r\n",
    "column twice": b"iteration,steps,a,a\r\n1,16,2,3\r\n",
    "short": b"iteration,steps,a\r\n1,16\r\n",
    "long": b"iteration,steps,a\r\n1,16,2,3\r\n",
    "no steps": b"iteration,steps,a\r\n1,,2\r\n",
    "not UTF-8": b"iteration,steps,\xff\r\n1,16,2\r\n",
    "open quote": b'iteration,steps,a\r\n1,16,"2\r\n',
}


def fits(value: Any, hint: str) -> bool:
    """Return whether a JSON value fits a type hint, by an implementation independent of the package."""
    if value is None:
        return "None" in hint
    if isinstance(value, bool):
        return "bool" in hint
    if isinstance(value, list):
        return hint.startswith(("list", "tuple")) and not value
    if isinstance(value, dict):
        return hint.startswith("dict") and (not value or "Any" in hint)
    kinds = {int: ("int", "float"), float: ("float",), str: ("str",)}[type(value)]
    return any(kind in hint for kind in kinds) and not hint.startswith(("dict", "list", "tuple"))


def of_fields(kind: type[Any], *keys: str | int) -> Iterator[tuple[str, Damage]]:
    """Wrong types, from the hints of a dataclass, and wrong numbers."""
    # what has no effect is as by default, see `gpu_envs.utils.settings.completed`
    fields = () if kind is PolicySpec else dataclasses.fields(kind)
    idle = [field.name for field in fields if field.metadata.get("requires")]
    for name, annotation in get_type_hints(kind).items():
        hint = (
            annotation.__name__
            if isinstance(annotation, type) and not hasattr(annotation, "__args__")
            else str(annotation)
        )
        path = ".".join(map(str, (*keys, name)))
        for value in WRONG:
            if annotation is not Any and not fits(value, hint):
                yield f"{path}={value!r}", with_field((*keys, name), value)
        if "int" in hint and not hint.startswith("dict"):
            many = hint.startswith(("tuple", "list"))
            for word, number in (
                ("5,000 digits", "1" * 5000),
                ("NaN", "NaN"),
                ("2**64", str(2**64)),
                ("negative", "-1"),
            ):
                if word != "negative" or name not in idle:
                    yield f"{path}: {word}", with_field((*keys, name), f"raw:[{number}]" if many else f"raw:{number}")


def cases() -> Iterator[tuple[str, str, Damage, tuple[str, ...]]]:
    """File, what is wrong, the damage, and what has to refuse it."""
    loads = (*TAKES_RUN, "load")
    for name, damage in JSON.items():
        yield MANIFEST, name, damage, ALL
        yield "config.json", name, damage, ALL
        yield SPEC, name, signed(damage), (*PLAYS, "load_policy")
    for name, damage in BYTES.items():
        yield STATE, name, damage, loads
        yield WEIGHTS, name, damage, (*loads, "load_policy")
        yield WEIGHTS, f"{name}, signed", signed(damage), (*PLAYS, "load_policy")
        yield STATE, f"{name}, signed", signed(damage), loads
    for name, content in TABLE.items():
        yield "metrics.csv", name, written(content), ("resume", "watch")
    for name, damage in of_fields(CheckpointManifest):
        yield MANIFEST, name, damage, ALL
    for name, damage in of_fields(PolicySpec):
        yield SPEC, name, signed(damage), (*PLAYS, "load_policy")
    for name, damage in of_fields(TrainConfig, "config"):
        if not name.startswith("config.learner"):
            yield MANIFEST, name, damage, (*PLAYS, "resume")
    for name, damage in of_fields(TrainConfig):
        if not name.startswith("learner"):
            yield "config.json", name, damage, ("watch",)
    for name, damage in of_fields(PPOConfig, "config", "learner"):
        yield MANIFEST, name, damage, (*PLAYS, "resume")
    for field in dataclasses.fields(CheckpointManifest):
        yield MANIFEST, f"no {field.name}", without_field((field.name,)), ALL
    manifest: dict[str, tuple[tuple[str, ...], Any]] = {
        "no digests": (("sha256",), {}),
        "a folder's name": (("iteration",), 3),
        "another file": (("sha256", "other.json"), "0" * 64),
        "a path": (("policies",), ["../agent"]),
        "a NUL": (("policies",), ["a\0b"]),
        "half a pair": (("policies",), ["\ud800"]),
        "a long name": (("policies",), ["x" * 300]),
        "another policy": (("policies",), ["agent", "other"]),
        "score NaN": (("score",), "raw:NaN"),
        "score 1e999": (("score",), "raw:1e999"),
        "deep": (("config", "env"), "raw:" + '{"a":' * 900 + "1" + "}" * 900),
    }
    for name, (keys, value) in manifest.items():
        yield MANIFEST, name, with_field(keys, value), ALL
    for name in ("state.safetensors", "policy-agent.json", "policy-agent.safetensors"):
        yield MANIFEST, f"no digest of {name}", without_field(("sha256", name)), ALL
    for name, value in (("env_id", "Pendulum-v1"), ("env", {"a": 1}), ("sharing", "all"), ("algorithm", "a2c")):
        yield MANIFEST, f"other {name}", with_field(("config", name), value), ALL
    for name, value in (("num_envs", 5), ("device", "cpu"), ("seed", 1), ("reuse_buffers", True), ("devices", [])):
        # the whole run says so
        yield "", f"env {name}", _of_run("env", {name: value}), (*TAKES_RUN, "watch")
    yield "", "a policy of another name", _rename_policy, PLAYS
    for keys, value in (
        (("hidden_sizes",), [-4]),
        (("hidden_sizes",), [0]),
        (("hidden_sizes",), [10**9]),
        (("hidden_sizes",), [10**9, 10**9]),
        (("hidden_sizes",), [2**63]),
        (("hidden_sizes",), [4] * 10_000),
        (("hidden_sizes",), [5]),
        (("obs_width",), 10**9),
        (("obs_width",), 5),
        (("ids",), 10**9),
        (("ids",), 2),
        (("network",), "other"),
        (("network",), "cnn"),
        (("network",), "gru"),
        (("activation",), "other"),
        (("image",), [1, 2, 2]),
        (("action",), {}),
        (("action",), {"kind": "other", "sizes": [2]}),
        (("action",), {"kind": ["discrete"], "sizes": [2]}),
        (("action",), {"kind": "discrete", "sizes": []}),
        (("action",), {"kind": "discrete", "sizes": [-2]}),
        (("action",), {"kind": "discrete", "sizes": [1, 1]}),
        (("action",), {"kind": "discrete", "sizes": [10**9]}),
        (("action",), {"kind": "discrete", "sizes": [2**63]}),
        (("action",), {"kind": "multi_discrete", "sizes": [0, 2]}),
        (("action",), {"kind": "greedy", "sizes": [2], "dueling": 1}),
        (("action",), {"kind": "continuous", "low": [0], "high": [1, 2], "init_log_std": 0}),
        (("action",), {"kind": "continuous", "low": [2, 2], "high": [1, 1], "init_log_std": 0}),
        (("action",), {"kind": "tanh", "low": [0, 0], "high": [1, 1e300]}),
        (("unknown",), 1),
        (("format",), "gpu-envs policy 1"),
    ):
        yield SPEC, f"{keys[0]}={value!r:.60}", signed(with_field(keys, value)), (*PLAYS, "load_policy")
    for name in ("normalizer.mean", "actor.body.0.weight"):
        for bad in (torch.nan, torch.inf):
            yield WEIGHTS, f"{name} {bad}", signed(with_tensor(name, lambda x, bad=bad: torch.full_like(x, bad))), PLAYS
        yield WEIGHTS, f"{name} double", signed(with_tensor(name, torch.Tensor.double)), (*PLAYS, "load_policy")
        yield WEIGHTS, f"{name} wider", signed(with_tensor(name, lambda x: torch.cat([x, x]))), PLAYS
    for name in ("learner.agent.net.actor.body.0.weight", "learner.agent.adam.0.exp_avg"):
        yield STATE, f"{name} NaN", signed(with_tensor(name, lambda x: torch.full_like(x, torch.nan))), ("resume",)
        yield STATE, f"{name} wider", signed(with_tensor(name, lambda x: torch.cat([x, x]))), ("resume",)


def _rename_policy(run: Path) -> None:
    """Rename the policy to a name that is missing in the settings of the run."""
    manifest = run / MANIFEST
    data = json.loads(manifest.read_text())
    data["policies"] = ["other"]
    for name in [*data["sha256"]]:
        if name.startswith("policy-agent"):
            other = name.replace("agent", "other")
            manifest.with_name(name).rename(manifest.with_name(other))
            data["sha256"][other] = data["sha256"].pop(name)
    manifest.write_text(json.dumps(data))


def _of_run(name: str, value: Any) -> Damage:
    def damage(run: Path) -> None:
        with_field(("config", name), value)(run / MANIFEST)
        with_field((name,), value)(run / "config.json")

    return damage


def of_recordings() -> Iterator[tuple[str, str, Damage, tuple[str, ...]]]:
    """Return damages of recorded episodes."""
    manifest, steps, user = "manifest.json", recording_files.STEPS, ("clone",)
    for name, damage in JSON.items():
        yield manifest, f"recording {name}", damage, user
    for name, damage in BYTES.items():
        yield steps, name, damage, user
        yield steps, f"{name}, signed", signed(damage), user
    for name, damage in (
        *of_fields(recording_files.RecordingManifest),
        *of_fields(recording_files.EpisodeRecord, "episodes", 0),
        ("no episodes", with_field(("episodes",), [])),
        ("longer", with_field(("episodes", 0, "length"), 1000)),
        ("num_envs", with_field(("env",), {"num_envs": 5})),
        ("other environment", with_field(("env_id",), "Pendulum-v1")),
    ):
        yield manifest, f"recording {name}", damage, user
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "NaN": lambda x: torch.full_like(x, torch.nan) if x.is_floating_point() else x - 1,
        "larger": lambda x: x + 2 if not x.is_floating_point() else x / 0,
        "double": torch.Tensor.double,
        "shorter": lambda x: x[:-1],
        "wider": lambda x: torch.cat([x, x], -1),
        "flat": lambda x: x.flatten()[: len(x)],
        "scalar": lambda x: x.flatten()[0],
    }
    for name in ("obs", "action"):
        for word, change in changes.items():
            yield steps, f"{name} {word}", signed(with_tensor(name, change)), user
    yield steps, "valid double", signed(with_tensor("valid", torch.Tensor.double)), user


CASES = [*cases(), *of_recordings()]
IDS = [f"{file.rpartition('/')[2]}: {name}"[:80] for file, name, _, _ in CASES]


# ---------------------------------------------------------------- tests


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("damaged") / "run"
    ppo = PPOConfig(rollout_length=4, num_epochs=1, num_minibatches=1, hidden_sizes=(4,))
    shared = {"num_envs": 4, "total_steps": 32, "checkpoint_interval": 1, "eval_episodes": 0, "num_threads": 1}
    Trainer(TrainConfig("CartPole-v1", learner=ppo, **shared), out).run()
    return out


def contents(run: Path) -> dict[str, bytes]:
    return {str(file.relative_to(run)): file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file()}


def check_refused(run: Path, user: str, capsys) -> str:
    """Read a run and return the one-line error."""
    original = contents(run)
    if user in READERS:
        with pytest.raises((CheckpointError, ConfigError)) as caught:
            READERS[user](run)
        line = str(caught.value)
    else:
        assert dispatch.main(COMMANDS[user](run)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("gpu-envs: error: ")
        line = err.rstrip("\n")
    assert "\n" not in line
    assert len(line) < 1500
    assert contents(run) == original
    assert [path.name for path in run.parent.iterdir()] == [run.name]
    return line


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    out = tmp_path_factory.mktemp("recorded") / "run"
    episodes, _ = record_policies(make_core("CartPole-v1", 3, "cpu", seed=0), {}, seed=0)
    recording_files.save(out, episodes, "CartPole-v1", {})
    return out


def damaged(original: Path, recorded: Path, tmp_path: Path, case: tuple[str, str, Damage, tuple[str, ...]]) -> Path:
    file, _, damage, users = case
    run = tmp_path / "place" / "run"
    shutil.copytree(recorded if users == ("clone",) else original, run)
    damage(run / file)
    return run


def test_damaged_file_is_one_line(original, recorded, tmp_path, capsys):
    """Some damages are read by one of those that have to refuse them, in turn."""
    few = [case for i, case in enumerate(CASES) if i % 13 == 0 or case[1] in ("a path", "a NUL", "another file")]
    for number, case in enumerate(few):
        user = case[3][number % len(case[3])]
        try:
            check_refused(damaged(original, recorded, tmp_path / str(number), case), user, capsys)
        except BaseException as error:
            raise AssertionError(f"{case[0]}: {case[1]}: {user}") from error


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_damaged_file_is_one_line_everywhere(original, recorded, tmp_path, capsys, case):
    run = damaged(original, recorded, tmp_path, case)
    for user in case[3]:
        check_refused(run, user, capsys)
