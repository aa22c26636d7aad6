"""Behavior cloning: training data, early stopping, and the play of cloned policies."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from small_commands import SMALL

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.runtime.factory import make_core
from trainers.algorithms.imitation.behavior_cloning import BCConfig, clone, collect_decisions
from trainers.base.agent_group import AgentGroup, make_agent_group
from trainers.cli.clone import clone_command
from trainers.cli.evaluate import eval_command
from trainers.cli.options import parse_train
from trainers.cli.train import train_command
from trainers.config.train_config import TrainConfig
from trainers.evaluation.policy_evaluation import evaluate_policies, record_policies
from trainers.evaluation.scripted_policies import ScriptedPolicy
from trainers.models.policy import Policy
from trainers.runner.trainer import Trainer
from trainers.storage import checkpoint, recording_files

GRID = {"num_taggers": 3, "use_full_observation": False}
QUICK = BCConfig(num_epochs=30, batch_size=256, learning_rate=0.01, hidden_sizes=(32,))


def episodes_of(answer, space, count=12, length=20, masked=False, seed=0):
    """Return episodes of two agents with 3 random observations that act by answer(obs, mask); agent 1 leaves early."""
    generator = torch.Generator().manual_seed(seed)
    episodes = []
    for number in range(count):
        obs = torch.randn((length, 2, 3), generator=generator)
        mask = torch.rand((length, 2, int(space.n)), generator=generator) < 0.7 if masked else None
        if mask is not None:
            mask[..., 0] = True
        valid = torch.ones((length, 2), dtype=torch.bool)
        valid[length // 2 :, 1] = False
        action = answer(obs, mask)
        action[length // 2 :, 1] = 0  # no-op of an agent that has left
        nothing = torch.zeros((length, 2))
        episodes.append(
            Episode(number, 0, {}, {}, obs, action, nothing, nothing.bool(), nothing.bool(), valid, action_mask=mask)
        )
    return episodes, AgentGroup(slice(0, 2), 3, space)


def best_of(obs, mask):
    scores = obs if mask is None else obs.masked_fill(~mask, -torch.inf)
    return scores.argmax(-1)


@pytest.mark.parametrize("masked", [False, True])
def test_clone_of_discrete_actions(masked):
    episodes, agents = episodes_of(best_of, spaces.Discrete(3), masked=masked)
    fit = clone(episodes, agents, QUICK)
    (unseen,), _ = episodes_of(best_of, spaces.Discrete(3), count=1, length=400, masked=masked, seed=1)
    mask = unseen.action_mask
    done = fit.policy.act(unseen.obs, mask, greedy=True)
    assert (done == best_of(unseen.obs, mask)).float().mean() > 0.9
    assert fit.agreement > 0.85
    if mask is not None:
        assert mask.gather(-1, done[..., None]).all()
        assert mask.gather(-1, fit.policy.act(unseen.obs, mask)[..., None]).all()


def test_clone_of_multi_discrete_actions():
    def answer(obs, mask):
        return torch.stack([(obs[..., 0] > 0).long(), 2 * (obs[..., 1] > 0).long()], -1)

    space = spaces.MultiDiscrete([2, 3])
    episodes, agents = episodes_of(answer, space)
    fit = clone(episodes, agents, QUICK)
    (unseen,), _ = episodes_of(answer, space, count=1, length=400, seed=1)
    assert (fit.policy.act(unseen.obs, greedy=True) == answer(unseen.obs, None)).all(-1).float().mean() > 0.9


def test_clone_of_continuous_actions():
    """Actions are in the units of the environment, also if the box is not [-1, 1]."""
    space = spaces.Box(np.float32([0, -10]), np.float32([1, 10]))

    def answer(obs, mask):
        return torch.stack([obs[..., 0].sigmoid(), 5.0 * obs[..., 1].tanh()], -1)

    episodes, agents = episodes_of(answer, space)
    fit = clone(episodes, agents, dataclasses.replace(QUICK, num_epochs=60, patience=20))
    (unseen,), _ = episodes_of(answer, space, count=1, length=400, seed=1)
    error = (fit.policy.act(unseen.obs, greedy=True) - answer(unseen.obs, None)).abs().mean((0, 1))
    assert error[0] < 0.05
    assert error[1] < 0.5
    assert math.isnan(fit.agreement)


def test_only_decisions_are_used():
    """Rows of agents that have left or are not to move are left out, and so is padding of wider observations."""
    (episode,), agents = episodes_of(best_of, spaces.Discrete(3), count=1)
    decisions = collect_decisions([episode, episode], agents, "cpu")
    assert len(decisions) == 2 * (20 + 10)
    assert torch.equal(decisions.action, decisions.obs.argmax(-1))
    turns = torch.zeros((20, 2), dtype=torch.bool)
    turns[::2, 0] = True
    moved = collect_decisions([dataclasses.replace(episode, to_move=turns)], agents, "cpu")
    assert torch.equal(moved.obs, episode.obs[::2, 0])
    single = collect_decisions([episode], AgentGroup(torch.tensor([1]), 2, spaces.Discrete(3)), "cpu")
    assert torch.equal(single.obs, episode.obs[:10, 1, :2])


def test_padding_of_action_components_is_ignored():
    core = make_core("SimpleSpeakerListener-v0", 2, "cpu", seed=0, continuous_actions=True)
    with core.record_episodes(range(2)) as recorder:
        evaluate_policies(core, {}, seed=0)
        episodes = recorder.take()
    for group in core.groups:
        agents = make_agent_group(core, [group])
        assert collect_decisions(episodes, agents, "cpu").action.shape[1:] == agents.space.shape


def test_training_stops_early_and_keeps_the_best_pass():
    """Random actions cannot be learned: the validation loss soon rises, and the best pass is kept."""

    def answer(obs, mask):
        return torch.randint(3, obs.shape[:-1], generator=torch.Generator().manual_seed(int(obs.sum() * 1e3)))

    episodes, agents = episodes_of(answer, spaces.Discrete(3))
    losses = []
    config = dataclasses.replace(QUICK, num_epochs=100, patience=3, hidden_sizes=(64, 64))
    fit = clone(episodes, agents, config, progress=lambda epoch, text: losses.append(float(text.split()[-1])))
    assert len(losses) == fit.epochs + 3 < 100
    assert fit.loss == pytest.approx(min(losses), abs=1e-3)
    weights = clone(episodes, agents, dataclasses.replace(config, num_epochs=fit.epochs)).policy.net.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in fit.policy.net.state_dict().items())
    repeated = clone(episodes, agents, config)
    assert repeated.loss == fit.loss  # same seed, same policy
    assert clone(episodes, agents, config, seed=1).loss != fit.loss


def test_invalid_training_data_is_refused():
    episodes, agents = episodes_of(best_of, spaces.Discrete(3), count=2)
    with pytest.raises(ConfigError, match="expected at least 2 episodes"):
        clone(episodes[:1], agents, QUICK)
    gone = [dataclasses.replace(episode, valid=torch.zeros_like(episode.valid)) for episode in episodes]
    with pytest.raises(ConfigError, match="expected decisions for training and validation, got 0 and 0"):
        clone(gone, agents, QUICK)
    with pytest.raises(ConfigError, match=r"learner.network: expected one without a hidden state for behavior cloning"):
        clone(episodes, agents, BCConfig(network="gru"))
    with pytest.raises(ConfigError, match=r"learner.patience: expected an int >= 1, got 0"):
        BCConfig(patience=0)


# ---------------------------------------------------------------- recordings on disk


@pytest.fixture(scope="module")
def chased():
    """Return episodes of scripted taggers and a random runner, their returns, and the core."""
    core = make_core("TagGridworld-v0", 48, "cpu", seed=0, reuse_buffers=True, **GRID)
    return *record_policies(core, {"tagger": ScriptedPolicy(core, "tagger")}, seed=3), core


def test_recordings_are_restored_completely(chased, tmp_path):
    episodes, outcome, _ = chased
    # one each, including those that ended early
    assert sorted(episode.world for episode in episodes) == list(range(48))
    assert sum(map(len, episodes)) == outcome.length.mean * 48
    recording_files.save(tmp_path / "deep" / "episodes", episodes, "TagGridworld-v0", GRID)
    back = recording_files.load(tmp_path / "deep" / "episodes")
    assert (back.env_id, back.env) == ("TagGridworld-v0", GRID)
    for mine, theirs in zip(episodes, back.episodes, strict=True):
        for field in dataclasses.fields(Episode):
            a, b = getattr(mine, field.name), getattr(theirs, field.name)
            if field.name == "state":
                assert a.keys() == b.keys()
                assert all(torch.equal(a[name], b[name]) for name in a)
            else:
                assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b
    assert {file.name for file in (tmp_path / "deep").rglob("*")} == {"episodes", "manifest.json", "steps.safetensors"}


def test_masks_and_turns_are_saved(tmp_path):
    core = make_core("TicTacToe-v0", 4, "cpu", seed=0)
    episodes, _ = record_policies(core, {}, seed=0)
    recording_files.save(tmp_path / "games", episodes, "TicTacToe-v0", {})
    for mine, theirs in zip(episodes, recording_files.load(tmp_path / "games").episodes, strict=True):
        assert torch.equal(mine.action_mask, theirs.action_mask)
        assert torch.equal(mine.to_move, theirs.to_move)
    decisions = collect_decisions(episodes, make_agent_group(core, ["player"]), "cpu")
    assert len(decisions) == sum(map(len, episodes))  # one of the two agents moves in every step
    assert decisions.mask.gather(1, decisions.action[:, None]).all()


def test_damaged_recordings_are_refused(chased, tmp_path):
    episodes = chased[0][:2]
    path = tmp_path / "episodes"
    with pytest.raises(ConfigError, match="expected at least one episode"):
        recording_files.save(path, [], "TagGridworld-v0", GRID)
    recording_files.save(path, episodes, "TagGridworld-v0", GRID)
    with pytest.raises(ConfigError, match="expected a folder that does not exist"):
        recording_files.save(path, episodes, "TagGridworld-v0", GRID)
    steps, manifest = path / recording_files.STEPS, path / "manifest.json"
    content, text = steps.read_bytes(), manifest.read_text()
    steps.write_bytes(content[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"steps.safetensors: expected sha256 .*\(damaged\)"):
        recording_files.load(path)
    steps.write_bytes(content)
    manifest.write_text(text.replace('"length": ', '"length": 1'))
    with pytest.raises(CheckpointError, match=r"obs: expected .* steps, as in manifest\.json"):
        recording_files.load(path)
    manifest.write_text(text.replace("recording 1", "recording 9"))
    with pytest.raises(CheckpointError, match="expected format 'gpu-envs recording 1'"):
        recording_files.load(path)


# ---------------------------------------------------------------- play of cloned policies


def test_cloned_tagger_matches_the_script(chased):
    """The taggers' mean return is within the script's interval and far above random play."""
    episodes, _, core = chased
    fit = clone(
        episodes, make_agent_group(core, ["tagger"]), dataclasses.replace(QUICK, num_epochs=60, hidden_sizes=(64, 64))
    )
    script, copied, chance = (
        evaluate_policies(core, {"tagger": policy}, seed=5, greedy=True).returns["tagger"]
        for policy in (ScriptedPolicy(core, "tagger"), fit.policy, None)
    )
    assert copied.mean + copied.half > script.mean - script.half, f"{copied} of the clone, {script} of the script"
    assert copied.mean - copied.half > chance.mean + chance.half, f"{copied} of the clone, {chance} by chance"


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0])
def test_clones_of_both_sides_of_simple_tag(seed):
    """The clones are compared with the scripts in the recorded games, script against script.

    The adversaries' clone reaches the script's return. The good agent's clone keeps more than half of the script's
    advantage over random play.
    """
    core = make_core("SimpleTag-v0", 512, "cpu", seed=seed, reuse_buffers=True)
    scripts = {group: ScriptedPolicy(core, group) for group in core.groups}
    episodes, _ = record_policies(core, scripts, seed=seed)
    clones = {
        group: clone(episodes, make_agent_group(core, [group]), BCConfig(), seed=seed).policy for group in core.groups
    }
    for group, slack in (("adversary", 0.1), ("agent", 0.5)):
        script, copied, chance = (
            evaluate_policies(core, {**scripts, group: policy}, seed=seed + 100, greedy=True).returns[group]
            for policy in (scripts[group], clones[group], None)
        )
        lost, span = script.mean - copied.mean, script.mean - chance.mean
        assert lost < slack * span, f"{group}: {copied} of the clone, {script} of the script, {chance} by chance"
        assert copied.mean - copied.half > chance.mean + chance.half
    hunted, chance = (
        evaluate_policies(core, {"adversary": p}, seed=seed + 100).returns["adversary"]
        for p in (clones["adversary"], None)
    )
    assert hunted.mean - hunted.half > chance.mean + chance.half  # other agents than the recorded ones are chased too


# ---------------------------------------------------------------- gpu-envs clone

FAST = ["--device", "cpu", "--episodes", "16", "--learner.num_epochs", "2", "--learner.hidden_sizes", "16"]


@pytest.fixture(scope="module")
def cloned(tmp_path_factory):
    out = tmp_path_factory.mktemp("clone") / "run"
    tag = [
        "scripted",
        "--env-id",
        "TagGridworld-v0",
        "--env-arg",
        "num_taggers=3",
        "--env-arg",
        "use_full_observation=false",
    ]
    assert clone_command([*tag, *FAST, "--run-dir", str(out)]) == 0
    return out


def test_eval_command_reads_a_cloned_policy(cloned, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # a row per matchup
    assert eval_command([str(cloned), "--device", "cpu", "--episodes", "8", "--opponents", "scripted"]) == 0
    text = capsys.readouterr().out
    assert "other: scripted" in text
    assert text.count("trained ") >= 4
    assert text.count("other ") >= 3
    saved = checkpoint.load(cloned)
    assert saved.policies == ("runner", "tagger")
    assert TrainConfig.from_json(saved.config).env == GRID
    assert isinstance(saved.policy("tagger"), Policy)


def test_clone_command_uses_recorded_episodes_of_one_group(cloned, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")  # a row per matchup
    argv = [str(cloned / "episodes"), *FAST, "--run-dir", str(tmp_path / "one"), "--policy", "tagger"]
    assert clone_command(argv) == 0
    assert checkpoint.load(tmp_path / "one").policies == ("tagger",)
    assert not (tmp_path / "one" / "episodes").exists()
    assert eval_command([str(tmp_path / "one"), "--device", "cpu", "--episodes", "8"]) == 0
    (heading,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("tagger "))
    assert heading.split()[:3] == ["tagger", "tagger", "return"]  # without runner


@pytest.mark.slow
def test_clone_command_uses_trained_policies(tmp_path, capsys):
    assert train_command([*SMALL, "--run-dir", str(tmp_path / "run"), "--eval-episodes", "0"]) == 0
    assert clone_command([str(tmp_path / "run"), *FAST, "--run-dir", str(tmp_path / "clone")]) == 0
    assert "recorded 16 episodes of" in capsys.readouterr().out
    assert TrainConfig.from_json(checkpoint.load(tmp_path / "clone").config).env == {"num_good": 2}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["scripted"], "clone scripted: expected an environment, got none"),
        (["scripted", "--env-id", "SimpleSpread-v0"], "SimpleSpread-v0: there are scripted policies for"),
        (
            ["scripted", "--env-id", "SimpleTag-v0", "--policy", "wolf"],
            "expected one of adversary, agent, got wolf",
        ),
        (
            ["scripted", "--env-id", "SimpleTag-v0", "--learner.patience", "0"],
            "learner.patience: expected an int >= 1, got 0",
        ),
        (["nowhere"], "nowhere: expected a checkpoint"),
        (["nowhere", "--env-arg", "num_good=2"], "--env-arg num_good=2: expected only with 'scripted'"),
    ],
)
def test_clone_command_errors_are_one_line(argv, words, tmp_path):
    with pytest.raises((ConfigError, CheckpointError), match=words) as caught:
        clone_command([*argv, "--device", "cpu", "--episodes", "2", "--run-dir", str(tmp_path / "none")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "none").exists()


def test_cloned_checkpoint_cannot_be_resumed(cloned, tmp_path):
    words = "algorithm: expected an algorithm that trains by acting, got 'bc'; use gpu-envs clone"
    for argv in (["--resume", str(cloned)], ["SimpleTag-v0", "--algorithm", "bc"]):
        with pytest.raises(ConfigError, match=words):
            parse_train(argv)
    with pytest.raises(ConfigError, match=words):
        Trainer(TrainConfig("SimpleTag-v0", algorithm="bc"), tmp_path / "run")
