"""Targets of training: verdicts, the page, and the model zoo."""

import json

import pytest
import torch
from matplotlib.axes import Axes

import gpu_envs
from benchmarks.hardware.page_files import filled
from benchmarks.training import baselines, learning_page, train_tasks
from benchmarks.training.goals import Matches, sources_of
from benchmarks.training.tasks import BASELINES, TASKS, Goal, TrainingTask
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.palette import PALETTE
from trainers.algorithms.algorithm_specs import ALGORITHMS
from trainers.config.presets import preset
from trainers.config.train_config import TrainConfig, make_train_core
from trainers.evaluation.policy_evaluation import evaluate_policies
from trainers.evaluation.scripted_policies import DeafListener
from trainers.storage import checkpoint, model_zoo


def run(reached, exit=0, wall=5.0, chance=(1.0, 0.5)):
    return {"reached": [reached], "exit": exit, "wall": wall, "others": {"random": {"agent": list(chance)}}}


@pytest.mark.parametrize(
    ("goal", "runs", "met"),
    [
        (Goal("return agent", 10.0), [run([11.0, 1.0]), run([12.0, 2.0])], True),
        (Goal("return agent", 10.0), [run([11.0, 1.0]), run([12.0, 2.1])], False),  # the worst seed's lower end
        (Goal("return agent", 10.0), [run([11.0, 1.0], exit=1)], False),
        (Goal("return agent", 10.0, below=True), [run([9.0, 1.0])], True),
        (Goal("return agent", 10.0, below=True), [run([9.0, 1.1])], False),
        (Goal("return agent", "random"), [run([3.0, 1.5])], True),  # intervals touch, and lie apart
        (Goal("return agent", "random"), [run([3.0, 1.6])], False),
        (Goal("return agent", "jaxmarl"), [run([-7.0, 2.0])], True),  # three agents at -3
        (Goal("return agent", "jaxmarl"), [run([-7.0, 2.1])], False),
        (Goal("return agent", "openspiel liars_dice 1"), [run([0.75, 0.25])], True),  # 0.5 in its seat
        (Goal("return agent", "openspiel liars_dice 1"), [run([0.75, 0.375])], False),
        (Goal("won_battle ally", "jaxmarl_smax mappo-2s3z"), [run([0.75, 0.25])], True),  # half of the battles
        (Goal("won_battle ally", "jaxmarl_smax mappo-2s3z"), [run([0.75, 0.375])], False),
        (Goal("return ally", "jaxmarl_smax mappo-2s3z return"), [run([7.0, 0.5])], True),  # 1.25 per ally
        (Goal("return ally", "jaxmarl_smax mappo-2s3z return"), [run([7.0, 1.0])], False),
        (Goal("return agent", "sb3 simple_line_v1 agent"), [run([-2.0, 1.0])], True),  # samples are better here
        (Goal("return agent", "sb3 simple_line_v1 agent"), [run([-2.0, 1.5])], False),
        (Goal("seconds", 10.0, below=True), [run(None, wall=9.9)], True),
        (Goal("seconds", 10.0, below=True), [run(None, wall=9.9, exit=1)], False),
        (Goal("return agent", "random", below=True), [run([0.2, 0.3])], True),  # below the lower end
        (Goal("return agent", "random", below=True), [run([0.3, 0.3])], False),
        (Goal("return agent"), [run([0.0, 0.0])], None),
    ],
)
def test_verdict_uses_the_worst_seed(goal, runs, met):
    baselines = {
        "jaxmarl": {"task": {}, "returns": [-2.0, -4.0], "agents": 3},
        "jaxmarl_smax mappo-2s3z": {"task": {}, "win_rates": [0.25, 0.75], "returns": [1.0, 1.5], "agents": 5},
        "openspiel liars_dice": {"returns": [[1.0, 1.0], [0.25, 0.75]]},
        "sb3 simple_line_v1": {
            "task": {},
            "greedy": [{"agent": -4.0}, {"agent": -5.0}],
            "sampled": [{"agent": -2.0}, {"agent": -4.0}],
        },
    }
    assert train_tasks.verdict(goal, 0, runs, baselines)["met"] is met


def test_page_equals_the_recorded_results():
    text = filled(learning_page.PAGE, learning_page.parts(train_tasks.recorded(), TASKS))
    assert text == learning_page.PAGE.read_text(), "python -m benchmarks.training.train_tasks --write"


def test_metric_has_one_row_with_all_its_thresholds():
    task = TrainingTask("x", "X-v0", (Goal("return a", 1.0), Goal("return a", "random")), "chosen", "why")
    goals = [
        {"values": [2.0], "ends": [1.5], "bounds": [bound], "met": met} for bound, met in ((1.0, True), (1.8, False))
    ]
    thresholds = "≥ 1.0 (chosen): yes; ≥ 1.8 (random, chosen): **no**"
    rows = list(learning_page._results(task, {"goals": goals}))
    assert rows == [("PPO on X-v0", "return a", "2.0", "1.5", thresholds)]


def test_curves_have_the_colors_of_roles(tmp_path, monkeypatch):
    (task,) = (task for task in TASKS if task.name == "simple-tag-ppo")
    drawn, plot = {}, Axes.plot

    def recorded(axes, *args, label=None, color=None, **kwargs):
        drawn.setdefault(label, set()).add(color)
        return plot(axes, *args, label=label, color=color, **kwargs)

    monkeypatch.setattr(Axes, "plot", recorded)
    learning_page._draw({task: train_tasks.recorded()[task.name]}, tmp_path / "curves.png")
    assert (drawn["adversary"], drawn["agent"]) == ({PALETTE["red"]}, {PALETTE["green"]})


def test_recorded_options_equal_those_of_the_tasks():
    recorded = train_tasks.recorded()
    for task in TASKS:
        assert recorded[task.name]["options"] == task.options, (
            f"python -m benchmarks.training.train_tasks --only {task.name}"
        )
        assert len(recorded[task.name]["runs"]) == task.seeds
    assert len({task.name for task in TASKS}) == len(TASKS)


@pytest.mark.slow
def test_league_is_a_task_whose_checkpoints_are_the_copies_of_its_players(tmp_path, monkeypatch):
    monkeypatch.setattr(train_tasks, "OUT", tmp_path)
    few = ("num_envs=4", "learner.rollout_length=4", "learner.hidden_sizes=[4]")
    options = "SimpleTag-v0 --env-arg max_episode_steps=4 --algorithm self_play --iterations 2 --steps 32 "
    options += "--rules.freeze-every 16 --episodes-per-matchup 4 --device cpu "
    options += " ".join(f"--train-overrides {option}" for option in few)
    goals = (Goal("return agent", "checkpoint 0", ("agent",), greedy=False),)
    task = TrainingTask("league", options, goals, "chosen", "s", command="league train")
    result = train_tasks.learn(task, 0, "1")
    assert (result["exit"], result["steps"]) == (0, 64)
    assert [steps for steps, _ in result["curve"]["agent"]] == [32, 64]
    assert result["checkpoint"].endswith("policies/checkpoints/000000002")
    assert "agent checkpoint 0, others random" in result["others"]
    repeated = train_tasks.learn(task, 0, "1", rerun=False)
    assert {**repeated, "wall": 0} == {**result, "wall": 0}, "a finished run is evaluated, not repeated"


@pytest.mark.parametrize("algorithm", ["mappo", "qmix"])
def test_presets_of_smax_take_the_steps_of_the_baselines(algorithm):
    assert preset("SMAX-v0", "cpu", algorithm).total_steps == BASELINES[f"jaxmarl_smax {algorithm}-2s3z"]["steps"]


def test_zoo_has_the_policies_of_the_tasks():
    assert {task.name for task in TASKS if task.zoo} <= {*checkpoint.zoo_names()}


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
    assert about["command"].startswith(("gpu-envs train ", "gpu-envs league train "))
    config = TrainConfig.from_json(saved.config)
    assert config.algorithm in ALGORITHMS
    assert about["goals"]
    agents = make_train_core(config, 1, 0).num_agents
    params = next((task.judged_with for task in TASKS if task.name == name), ())
    matches = Matches(checkpoint.zoo_folder(name), 128 if agents < 20 else 8, seed=5, params=params)
    goals = about["goals"]
    if name in LARGE_GAMES:  # one of each matchup
        goals = {(*goal["playing"], goal.get("against")): goal for goal in goals}.values()
    for goal in goals:
        judged = Goal(goal["of"], playing=tuple(goal["playing"]), against=goal.get("against", "random"))
        mean, half = matches.play(sources_of(judged, matches.sides), goal["greedy"])[judged.measure]
        expected, margin = goal["reached"]
        assert abs(mean - expected) <= 2.5 * (half + margin) + 1e-6, goal


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
    with pytest.raises(ConfigError, match="model zoo: expected one of x, got 'y'"):
        model_zoo.load("y")


def test_deaf_listener_scores_above_random_play():
    core = gpu_envs.make("SimpleSpeakerListener-v0", num_envs=64, seed=0, reuse_buffers=True).core
    chance = evaluate_policies(core, {}, seed=1).returns["listener"]
    deaf = evaluate_policies(core, {"listener": DeafListener()}, seed=1).returns["listener"]
    assert deaf.mean - deaf.half > chance.mean + chance.half
    goal = TrainingTask("b", "", (Goal("return listener", "scripted"),), "chosen", "s").goals[0]
    assert torch.isfinite(torch.tensor(deaf.mean))
    assert goal.bound == "scripted"


def test_run_with_other_settings_is_trained_again(tmp_path, monkeypatch):
    monkeypatch.setattr(train_tasks, "OUT", tmp_path)
    task, about = TASKS[0], {"settings": "a: 1\n", **dict.fromkeys(train_tasks.OF_TRAINING, "")}
    assert train_tasks.finished(task, 0, "a: 1\n") is None
    for name, written in (("0-1", about), ("0-2", {**about, "settings": "a: 2\n"}), ("0-3", {"options": ["--a", "1"]})):
        (tmp_path / task.name / name).mkdir(parents=True)
        (tmp_path / task.name / name / train_tasks.FINISHED).write_text(json.dumps(written))
    assert train_tasks.finished(task, 0, "a: 1\n") == tmp_path / task.name / "0-1"
    assert train_tasks.finished(task, 0, "a: 3\n") is None
    assert train_tasks.finished(task, 1, "a: 1\n") is None


@pytest.mark.slow
def test_settings_of_a_run_are_those_of_its_preset():
    (task,) = (task for task in TASKS if task.name == "foraging-ippo")
    assert "--rollout-length" not in task.options
    assert "rollout_length: 100\n" in train_tasks.settings_of(task, train_tasks.options_of(task, 0))
    with pytest.raises(ValueError, match=r"foraging-ippo: .*Unrecognized options: --unknown"):
        train_tasks.settings_of(task, ["--unknown"])


def test_recorded_baselines_are_of_these_settings():
    recorded = train_tasks.recorded()
    settings = {name: recorded[baselines.file_of(name)]["task"] for name in BASELINES}
    assert settings == json.loads(json.dumps(BASELINES))
