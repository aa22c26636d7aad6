"""Searching for settings: all that needs no Ray."""

import dataclasses

import pytest
from tuned_cartpole import cartpole

from gpu_envs.errors import CheckpointError, ConfigError, GpuEnvsError
from trainers.algorithms.off_policy.dqn import DQNConfig
from trainers.cluster import search_space
from trainers.cluster.search_space import Space, parse, parse_all
from trainers.cluster.tune_search import dry_run, resources
from trainers.cluster.tune_trial import TuneConfig, trial_config, with_config
from trainers.config.train_config import changed
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint


@pytest.mark.parametrize(
    ("text", "kind", "values"),
    [
        ("loguniform(1e-4,1e-2)", "loguniform", (1e-4, 1e-2)),
        (" uniform( -1 , 2 ) ", "uniform", (-1.0, 2.0)),
        ("randint(1,8)", "randint", (1, 8)),
        ("randint(1e2,1e3)", "randint", (100, 1000)),
        ("choice(1_000,2e3)", "choice", (1000, 2000)),
        ("choice(0,0.01,0.02)", "choice", (0, 0.01, 0.02)),
        ("choice(relu,tanh)", "choice", ("relu", "tanh")),
        ('choice("a,b",c)', "choice", ("a,b", "c")),
        ("choice(true,False,null,None)", "choice", (True, False, None, None)),
        ("grid([64,64],[128])", "grid", ((64, 64), (128,))),
    ],
)
def test_reads_spaces(text, kind, values):
    space = parse(text)
    assert (space.kind, space.values) == (kind, values)
    assert [type(value) for value in space.values] == [type(value) for value in values]
    assert parse(str(space)) == space


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("normal(0,1)", r"expected one of loguniform\(a,b\), uniform\(a,b\), randint\(a,b\), choice"),
        ("__import__('os')", "expected one of loguniform"),
        ("0.1", "expected one of loguniform"),
        ("uniform(0,1", "expected one of loguniform"),
        ("uniform(0)", r"expected two numbers, uniform\(a,b\)"),
        ("uniform(0,inf)", "expected two numbers"),
        ("uniform(0,Infinity)", "expected two numbers"),
        ("uniform(0,true)", "expected two numbers"),
        ("uniform(1,1)", "expected a < b"),
        ("loguniform(0,1)", "expected 0 < a < b"),
        ("randint(0.5,2)", "expected two whole numbers"),
        ("choice()", "expected values with commas between them"),
        ("choice(1,,2)", "expected values with commas between them"),
        ("choice([1,2)", "expected values with commas between them"),
        ("choice(a,b,)", "expected values with commas between them"),
        ("choice(a: b)", "expected numbers, words or JSON, got a: b"),
        ("choice(1+1)", "expected numbers, words or JSON, got 1\\+1"),
    ],
)
def test_invalid_search_spaces_are_refused(text, line):
    with pytest.raises(ConfigError, match=line) as refused:
        parse(text)
    assert "\n" not in str(refused.value)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("pairs", "line"),
    [
        (["learner.entropy_coef"], "--search learner.entropy_coef: expected NAME=SPACE"),
        (
            ["learner.entropy_coef=uniform(0,1)", "learner.entropy_coef=choice(0)"],
            "learner.entropy_coef is searched twice",
        ),
        ([], "search: expected a setting to search, got none"),
        (
            ["learner.entrop=uniform(0,1)"],
            "no setting named 'learner.entrop'; did you mean learner.entropy_coef",
        ),
        (["learner.lr=uniform(0,1)"], "no setting named 'learner.lr'; did you mean learner.learning_rate?"),
        (["num_env=choice(8)"], "no setting named 'num_env'; did you mean num_envs?"),
        (["device=choice(cpu)"], "no setting named 'device'; expected one of num_envs, seed, sharing, learner.NAME"),
        (["learner.gamma=uniform(0.9,1.1)"], r"learner.gamma: expected a finite number in \[0, 1\], got 1.1"),
        (["learner.clip_range=uniform(0,0.3)"], "learner.clip_range: expected a finite number > 0, got 0.0"),
        (["learner.num_epochs=uniform(1,4)"], "learner.num_epochs: expected int|epochs: expected int, got 1.0"),
        (["learner.activation=choice(relu,rely)"], "learner.activation: expected one of .*, got 'rely'"),
        (
            ["learner.target_kl=choice(null,0.1)", "learner.num_epochs=randint(1,4)"],
            "learner.target_kl = 0.1: has no effect",
        ),
    ],
)
def test_checks_names_and_values_before_anything_starts(pairs, line):
    with pytest.raises(ConfigError, match=line):
        search_space.check(cartpole(), parse_all(pairs))


def test_takes_objects_of_ray_tune():
    """As they are in Ray, which need not be there: by their names and ends."""
    integer = type("Integer", (), {"lower": 1, "upper": 5})()
    assert search_space.space("learner.num_epochs", integer).values == (1, 4)  # Ray leaves the upper end out
    categorical = type("Categorical", (), {"categories": [[8], [8, 8]]})()
    assert search_space.space("learner.hidden_sizes", categorical).values == ((8,), (8, 8))
    assert search_space.space("learner.hidden_sizes", {"grid_search": [[8]]}) == Space("grid", ((8,),))
    endless = type("Float", (), {"lower": -float("inf"), "upper": float("inf")})()
    with pytest.raises(ConfigError, match=r"search: learner\.gamma: expected text, or a range with ends"):
        search_space.space("learner.gamma", endless)


def test_perturbed_settings_stay_within_bounds():
    spaces = parse_all(
        ["learner.gamma=uniform(0.9,0.99)", "learner.num_epochs=randint(1,4)", "learner.entropy_coef=choice(0,1)"]
    )
    back = search_space.clip_to_space(spaces)
    gone = {"learner.gamma": 1.19, "learner.num_epochs": 5, "learner.entropy_coef": 1}
    assert back(gone) == {"learner.gamma": 0.99, "learner.num_epochs": 4, "learner.entropy_coef": 1}
    assert back({"learner.gamma": 0.8, "learner.num_epochs": 0, "learner.entropy_coef": 0})["learner.gamma"] == 0.9


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"scheduler": "hyperband"}, "scheduler: expected one of 'asha', 'pbt', 'none', got 'hyperband'"),
        ({"num_samples": 0}, "num_samples: expected an int >= 1, got 0"),
        ({"scheduler": "pbt", "grace_period": 5}, "grace_period = 5: has no effect with scheduler = 'pbt'"),
        (
            {"perturbation_interval": 5},
            "perturbation_interval = 5: has no effect with scheduler = 'asha'",
        ),
        ({"mode": "best"}, "mode: expected one of 'max', 'min', got 'best'"),
    ],
)
def test_inconsistent_plans_are_refused(settings, line):
    with pytest.raises(ConfigError, match=line):
        TuneConfig(**settings)


def test_changed_settings_take_effect_in_a_copied_trial(tmp_path):
    """A copy learns with its own learning rate, not with the rate of the weights that it took."""
    frozen = cartpole(learner=dataclasses.replace(cartpole().learner, learning_rate=1e-12), total_steps=64 * 3)
    start = checkpoint.load(Trainer(frozen, tmp_path / "still").run())

    def moved(name, **changes):
        config = changed(dataclasses.replace(frozen, total_steps=64 * 6), changes, "search")
        trainer = Trainer(config, tmp_path / name, with_config(start, config))
        assert trainer.steps == 64 * 3
        initial = {key: value.clone() for key, value in trainer.assignments["agent"].learner.actor.state_dict().items()}
        trainer.run()
        assert trainer.steps == 64 * 6
        assert checkpoint.load(tmp_path / name).config["learner"]["learning_rate"] == config.learner.learning_rate
        after = trainer.assignments["agent"].learner.actor.state_dict()
        return max(float((after[key] - value).abs().max()) for key, value in initial.items())

    assert moved("as it was") < 1e-9
    assert moved("other", **{"learner.learning_rate": 0.01}) > 1e-3
    with pytest.raises(CheckpointError, match="learner: expected"):  # a run that is resumed cannot
        Trainer(changed(frozen, {"learner.learning_rate": 0.01, "total_steps": 640}, "it"), tmp_path / "no", start)


def test_trainer_reports_every_checkpoint(tmp_path):
    saves = []
    config = dataclasses.replace(cartpole(), checkpoint_interval=2)
    Trainer(
        config,
        tmp_path / "run",
        on_save=lambda path, row: saves.append((path.name, row["env_steps"], row["eval/score"])),
    ).run()
    assert [save[:2] for save in saves] == [("000000002", 128), ("000000004", 256), ("000000006", 384)]
    start = checkpoint.load(tmp_path / "run" / "checkpoints" / "000000004")
    resumed = []
    trainer = Trainer(
        config, tmp_path / "on", start, on_save=lambda path, row: resumed.append((path.name, row["env_steps"]))
    )
    assert resumed == []  # its first checkpoint is another's
    trainer.run()
    assert resumed == [("000000006", 384)]


def test_checkpoint_interval_does_not_depend_on_the_rollout_length():
    config = cartpole(total_steps=64 * 100)
    assert trial_config(config, TuneConfig(), {}).checkpoint_interval == 5
    assert trial_config(config, TuneConfig(eval_interval=640), {"num_envs": 16}).checkpoint_interval == 5
    assert trial_config(config, TuneConfig(eval_interval=1), {}).checkpoint_interval == 1
    assert trial_config(config, TuneConfig(), {"learner.gamma": 0.5}).learner.gamma == 0.5


@pytest.mark.parametrize(
    ("config", "pairs", "plan", "line"),
    [
        (
            {},
            [],
            {"metric": "eval/scor"},
            "metric: expected one of iteration, env_steps.*eval/score.*, got 'eval/scor'",
        ),
        ({"eval_episodes": 0}, [], {}, "metric = 'eval/score': has no effect with eval_episodes = 0"),
        ({}, ["num_envs=choice(4,8)"], {"scheduler": "pbt"}, "num_envs: pbt can only change numbers of the learner"),
        (
            {},
            ["learner.hidden_sizes=choice([8],[9])"],
            {"scheduler": "pbt"},
            "learner.hidden_sizes: pbt can only change numbers",
        ),
        (
            {},
            ["learner.rollout_length=randint(4,8)"],
            {"scheduler": "pbt"},
            "rollout_length = 4: .* the size of a buffer",
        ),
        ({"env_id": "CartPole-v9"}, [], {}, "CartPole-v9"),
    ],
)
def test_dry_run_detects_invalid_searches(config, pairs, plan, line):
    config = dataclasses.replace(cartpole(), **config)
    with pytest.raises(GpuEnvsError, match=line):
        dry_run(config, parse_all(pairs), TuneConfig(**plan))


def test_dry_run_detects_states_that_do_not_fit():
    learner = DQNConfig(rollout_length=4, replay_size=512, learning_starts=16, hidden_sizes=(8,))
    config = cartpole(algorithm="dqn", learner=learner)
    dry_run(config, parse_all(["learner.learning_rate=loguniform(1e-4,1e-2)"]), TuneConfig("pbt"))
    with pytest.raises(ConfigError, match=r"learner\.replay_size = 256: pbt cannot change it during a training"):
        dry_run(config, parse_all(["learner.replay_size=choice(256,512)"]), TuneConfig("pbt"))


def node(cpus, gpus=0, alive=True):
    return {"Alive": alive, "Resources": {"CPU": float(cpus), **({"GPU": float(gpus)} if gpus else {})}}


@pytest.mark.parametrize(
    ("device", "plan", "trials", "nodes", "expected"),
    [
        ("cpu", {}, 16, [node(2)], (1, 0)),
        ("cpu", {}, 2, [node(8)], (4, 0)),
        ("cpu", {}, 1, [node(2), node(2), node(4)], (4, 0)),
        ("cpu", {}, 1, [node(2), node(4, alive=False)], (2, 0)),
        ("cpu", {"cpus": 0.5}, 16, [node(2)], (0.5, 0)),
        ("cuda", {}, 16, [node(8, 1)], (2, 0.25)),
        ("cuda", {}, 2, [node(8, 1)], (4, 0.5)),
        ("cuda", {}, 4, [node(8, 4)], (2, 1)),
        ("cuda", {}, 16, [node(2, 1)], (0.5, 0.25)),
        ("cuda", {"gpus": 1}, 16, [node(8, 2), node(8)], (8, 1)),
    ],
)
def test_resources_come_from_the_cluster(device, plan, trials, nodes, expected):
    config = cartpole(device=device, num_threads=0)
    assert resources(TuneConfig(**plan), config, trials, nodes) == {"cpu": expected[0], "gpu": expected[1]}


@pytest.mark.parametrize(
    ("device", "plan", "line"),
    [
        ("cpu", {"cpus": 3}, "cpus: expected at most the 2 of the largest machine"),
        ("cuda", {}, "device='cuda': expected a cluster with GPUs"),
        ("cpu", {"gpus": 1}, "gpus = 1: has no effect with device = 'cpu'"),
    ],
)
def test_missing_resources_are_refused(device, plan, line):
    with pytest.raises(ConfigError, match=line):
        resources(TuneConfig(**plan), cartpole(device=device), 4, [node(2), node(2)])
