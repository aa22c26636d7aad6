"""The policies of the model zoo: their size, their records, and how they are made again."""

import json

import pytest

from benchmarks import model_zoo as renewal
from gpu_envs.errors import ConfigError
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.config.train_config import TrainConfig
from trainers.storage import checkpoint, model_zoo

LARGE_GAMES = ("tag-continuous", "tag-continuous-joint")


@pytest.mark.variations
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=[pytest.mark.slow] * (name in (*LARGE_GAMES, "warehouse-ippo"))
            + [pytest.mark.optimized] * (name in LARGE_GAMES),
        )
        for name in checkpoint.zoo_names()
    ],
)
def test_models_play_as_recorded(name):
    """Policies of the zoo act in their environment, and reach what their page says, within the intervals of both."""
    size = sum(file.stat().st_size for file in checkpoint.zoo_folder(name).iterdir())
    assert size <= model_zoo.MAX_BYTES
    saved, about = model_zoo.load(name), model_zoo.about(name)
    assert TrainConfig.from_json(saved.config).algorithm in ALGORITHMS
    assert about["command"].startswith(("gpu-envs train ", "gpu-envs league train "))
    episodes = 8 if name in LARGE_GAMES else 128
    matchups = renewal.evaluate(saved, {**about, "episodes": episodes}, seed=5)
    assert [matchup["policies"] for matchup in matchups] == [matchup["policies"] for matchup in about["matchups"]]
    for matchup, recorded in zip(matchups, about["matchups"], strict=True):
        for label, (expected, margin) in recorded["results"].items():
            mean, half = matchup["results"].get(label, (expected, margin))  # agents left early in more episodes
            assert abs(mean - expected) <= 3.5 * (half + margin) + 1e-6, (matchup["policies"], label)


@pytest.mark.parametrize("name", checkpoint.zoo_names())
def test_records_have_trained_policies_that_do_better_than_random_ones(name):
    matchups = {tuple(m["policies"].values()): m["results"] for m in model_zoo.about(name)["matchups"]}
    sides = len(next(iter(matchups)))
    random, trained = matchups[("random",) * sides], matchups[("trained",) * sides]
    gains = [trained[label][0] - random[label][0] for label in random if label.endswith(" return")]
    assert max(gains) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "gpu-envs train Kuhn-v0",
        "gpu-envs league train SimpleTag-v0 --algorithm self_play --iterations 1 --steps 32 --rules.freeze-every 16 "
        "--episodes-per-matchup 4 --device cpu --train-overrides num_envs=4 --train-overrides learner.rollout_length=4",
    ],
)
def test_entry_is_trained_again_by_its_command(command, tmp_path, monkeypatch):
    command = command.replace("Kuhn-v0", "KuhnPoker-v0 --total-steps 64 --num-envs 4 --learner.rollout-length 4")
    monkeypatch.setattr(checkpoint, "ZOO_FOLDER", tmp_path / "zoo")
    monkeypatch.setattr(renewal, "OUT", tmp_path / "out")
    (tmp_path / "zoo" / "entry").mkdir(parents=True)
    about = {"command": command, "commit": "", "episodes": 4, "greedy": True, "env": {}}
    (tmp_path / "zoo" / "entry" / "about.json").write_text(json.dumps(about))
    renewal.main(["entry", "--train"])
    written = model_zoo.about("entry")
    assert written["commit"]
    assert {**written, "commit": "", "matchups": 0} == {**about, "matchups": 0}
    assert all(values["results"] for values in written["matchups"])
    assert model_zoo.load("entry").policies


def test_models_that_are_too_large_or_unknown_are_refused(tmp_path, monkeypatch):
    saved = model_zoo.load(checkpoint.zoo_names()[0])
    monkeypatch.setattr(checkpoint, "ZOO_FOLDER", tmp_path)
    monkeypatch.setattr(model_zoo, "MAX_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"model zoo: x has .* bytes, at most 1,000 are allowed"):
        model_zoo.put("x", saved, {})
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(model_zoo, "MAX_BYTES", 300_000)
    model_zoo.put("x", saved, {"command": "one"})
    model_zoo.put("x", saved, {"command": "two"})
    assert model_zoo.about("x") == {"command": "two"}
    assert json.loads((checkpoint.zoo_folder("x") / "about.json").read_text()) == {"command": "two"}
    with pytest.raises(ConfigError, match="no model in the zoo named 'y'; expected one of x"):
        model_zoo.load("y")
