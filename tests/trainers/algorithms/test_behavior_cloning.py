"""Behaviour cloning: what it learns from, when it ends, and that a clone plays like the one it was made of."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_train_command import SMALL

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.factory import make_core
from gpu_envs.recording import Episode
from trainers import checkpoint, recordings
from trainers.agents import Agents, agents_of
from trainers.arguments import parse_train
from trainers.bc import BCConfig, clone, decisions
from trainers.cloning import clone_command
from trainers.commands import eval_command, train_command
from trainers.config import TrainConfig
from trainers.evaluate import play
from trainers.loop import Trainer
from trainers.policy import Policy
from trainers.scripted import ScriptedPolicy

GRID = {"num_taggers": 3, "use_full_observation": False}
QUICK = BCConfig(epochs=30, batch_size=256, learning_rate=0.01, hidden=(32,))


def episodes_of(answer, space, count=12, length=20, masked=False, seed=0):
    """Episodes of two agents that see 3 random numbers and do answer(obs, mask); agent 1 leaves halfway."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number in range(count):
        obs = torch.randn((length, 2, 3), generator=generator)
        mask = torch.rand((length, 2, int(space.n)), generator=generator) < 0.7 if masked else None
        if mask is not None:
            mask[..., 0] = True
        valid = torch.ones((length, 2), dtype=torch.bool)
        valid[length // 2 :, 1] = False
        action = answer(obs, mask)
        action[length // 2 :, 1] = 0  # the no-op of who has left
        nothing = torch.zeros((length, 2))
        made.append(
            Episode(number, 0, {}, {}, obs, action, nothing, nothing.bool(), nothing.bool(), valid, action_mask=mask)
        )
    return made, Agents(slice(0, 2), 3, space)


def best_of(obs, mask):
    scores = obs if mask is None else obs.masked_fill(~mask, -torch.inf)
    return scores.argmax(-1)


@pytest.mark.parametrize("masked", [False, True])
def test_discrete(masked):
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


def test_multi_discrete():
    def answer(obs, mask):
        return torch.stack([(obs[..., 0] > 0).long(), 2 * (obs[..., 1] > 0).long()], -1)

    space = spaces.MultiDiscrete([2, 3])
    episodes, agents = episodes_of(answer, space)
    fit = clone(episodes, agents, QUICK)
    (unseen,), _ = episodes_of(answer, space, count=1, length=400, seed=1)
    assert (fit.policy.act(unseen.obs, greedy=True) == answer(unseen.obs, None)).all(-1).float().mean() > 0.9


def test_continuous():
    """In the units of the environment, also where those are not [-1, 1]."""
    space = spaces.Box(np.float32([0, -10]), np.float32([1, 10]))

    def answer(obs, mask):
        return torch.stack([obs[..., 0].sigmoid(), 5.0 * obs[..., 1].tanh()], -1)

    episodes, agents = episodes_of(answer, space)
    fit = clone(episodes, agents, dataclasses.replace(QUICK, epochs=60, patience=20))
    (unseen,), _ = episodes_of(answer, space, count=1, length=400, seed=1)
    error = (fit.policy.act(unseen.obs, greedy=True) - answer(unseen.obs, None)).abs().mean((0, 1))
    assert error[0] < 0.05
    assert error[1] < 0.5
    assert math.isnan(fit.agreement)


def test_only_decisions_count():
    """Rows of who has left, or is not on the move, are left out; so is the padding of wider observations."""
    (episode,), agents = episodes_of(best_of, spaces.Discrete(3), count=1)
    found = decisions([episode, episode], agents, "cpu")
    assert len(found) == 2 * (20 + 10)
    assert torch.equal(found.action, found.obs.argmax(-1))
    turns = torch.zeros((20, 2), dtype=torch.bool)
    turns[::2, 0] = True
    moved = decisions([dataclasses.replace(episode, to_move=turns)], agents, "cpu")
    assert torch.equal(moved.obs, episode.obs[::2, 0])
    one = decisions([episode], Agents(torch.tensor([1]), 2, spaces.Discrete(3)), "cpu")
    assert torch.equal(one.obs, episode.obs[:10, 1, :2])


def test_a_lesser_component_of_padded_actions():
    core = make_core("SimpleSpeakerListener-v0", 2, "cpu", seed=0, continuous_actions=True)
    with core.record(range(2)) as recorder:
        play(core, {}, seed=0)
        episodes = recorder.take()
    for group in core.groups:
        agents = agents_of(core, [group])
        assert decisions(episodes, agents, "cpu").action.shape[1:] == agents.space.shape


def test_ends_early_and_keeps_the_best():
    """Answers at random cannot be learned: the loss on episodes held back rises soon, and the best pass is kept."""

    def answer(obs, mask):
        return torch.randint(3, obs.shape[:-1], generator=torch.Generator().manual_seed(int(obs.sum() * 1e3)))

    episodes, agents = episodes_of(answer, spaces.Discrete(3))
    seen = []
    config = dataclasses.replace(QUICK, epochs=100, patience=3, hidden=(64, 64))
    fit = clone(episodes, agents, config, progress=lambda epoch, text: seen.append(float(text.split()[-1])))
    assert len(seen) == fit.epochs + 3 < 100
    assert fit.loss == pytest.approx(min(seen), abs=1e-3)
    there = clone(episodes, agents, dataclasses.replace(config, epochs=fit.epochs)).policy.net.state_dict()
    assert all(torch.equal(there[name], tensor) for name, tensor in fit.policy.net.state_dict().items())
    again = clone(episodes, agents, config)
    assert again.loss == fit.loss  # same seed, same clone
    assert clone(episodes, agents, config, seed=1).loss != fit.loss


def test_what_cannot_be_cloned():
    episodes, agents = episodes_of(best_of, spaces.Discrete(3), count=2)
    with pytest.raises(ConfigError, match="expected at least 2 episodes"):
        clone(episodes[:1], agents, QUICK)
    gone = [dataclasses.replace(each, valid=torch.zeros_like(each.valid)) for each in episodes]
    with pytest.raises(ConfigError, match="expected decisions to learn from and to check with, got 0 and 0"):
        clone(gone, agents, QUICK)
    with pytest.raises(ConfigError, match=r"learner.body = 'gru': expected 'mlp' or 'cnn'"):
        BCConfig(body="gru")
    with pytest.raises(ConfigError, match=r"learner.patience = 0: expected >= 1"):
        BCConfig(patience=0)


# ---------------------------------------------------------------- recordings on disk


@pytest.fixture(scope="module")
def chased():
    """Episodes of scripted taggers and a random runner, what they earned, and the core."""
    core = make_core("TagGridworld-v0", 48, "cpu", seed=0, reuse_buffers=True, **GRID)
    return *recordings.record(core, {"tagger": ScriptedPolicy(core, "tagger")}, seed=3), core


def test_recordings_come_back_whole(chased, tmp_path):
    episodes, outcome, _ = chased
    assert sorted(episode.world for episode in episodes) == list(range(48))  # one each, also of those that ended early
    assert sum(map(len, episodes)) == outcome.length.mean * 48
    recordings.save(tmp_path / "deep" / "episodes", episodes, "TagGridworld-v0", GRID)
    back = recordings.load(tmp_path / "deep" / "episodes")
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


def test_masks_and_turns_are_saved_too(tmp_path):
    core = make_core("TicTacToe-v0", 4, "cpu", seed=0)
    episodes, _ = recordings.record(core, {}, seed=0)
    recordings.save(tmp_path / "games", episodes, "TicTacToe-v0", {})
    for mine, theirs in zip(episodes, recordings.load(tmp_path / "games").episodes, strict=True):
        assert torch.equal(mine.action_mask, theirs.action_mask)
        assert torch.equal(mine.to_move, theirs.to_move)
    found = decisions(episodes, agents_of(core, ["player"]), "cpu")
    assert len(found) == sum(map(len, episodes))  # one of the two moves in every step
    assert found.mask.gather(1, found.action[:, None]).all()


def test_bad_recordings(chased, tmp_path):
    episodes = chased[0][:2]
    path = tmp_path / "episodes"
    with pytest.raises(ConfigError, match="expected at least one episode"):
        recordings.save(path, [], "TagGridworld-v0", GRID)
    recordings.save(path, episodes, "TagGridworld-v0", GRID)
    with pytest.raises(ConfigError, match="expected a folder that is not there yet"):
        recordings.save(path, episodes, "TagGridworld-v0", GRID)
    steps, manifest = path / recordings.STEPS, path / "manifest.json"
    whole, told = steps.read_bytes(), manifest.read_text()
    steps.write_bytes(whole[:-1] + b"x")
    with pytest.raises(CheckpointError, match=r"steps.safetensors: expected sha256 .*\(damaged\)"):
        recordings.load(path)
    steps.write_bytes(whole)
    manifest.write_text(told.replace('"length": ', '"length": 1'))
    with pytest.raises(CheckpointError, match=r"obs: expected .* steps, as in manifest\.json"):
        recordings.load(path)
    manifest.write_text(told.replace("recording 1", "recording 9"))
    with pytest.raises(CheckpointError, match="expected format 'gpu-envs recording 1'"):
        recordings.load(path)


# ---------------------------------------------------------------- clones play


def test_a_clone_chases_like_the_script(chased):
    """The mean return of the taggers is within the intervals of the script's, and far above random play's."""
    episodes, _, core = chased
    fit = clone(episodes, agents_of(core, ["tagger"]), dataclasses.replace(QUICK, epochs=60, hidden=(64, 64)))
    script, copied, chance = (
        play(core, {"tagger": policy}, seed=5, greedy=True).returns["tagger"]
        for policy in (ScriptedPolicy(core, "tagger"), fit.policy, None)
    )
    assert copied.mean + copied.half > script.mean - script.half, f"{copied} of the clone, {script} of the script"
    assert copied.mean - copied.half > chance.mean + chance.half, f"{copied} of the clone, {chance} by chance"


@pytest.mark.learning
@pytest.mark.parametrize("seed", [0])
def test_clones_of_both_sides_of_simple_tag(seed):
    """In the games that were recorded, script against script.

    The adversaries' clone earns what the script does; the good agent's, whose choices hang on less, keeps more than
    half of what the script is ahead of chance.
    """
    core = make_core("SimpleTag-v0", 512, "cpu", seed=seed, reuse_buffers=True)
    scripts = {group: ScriptedPolicy(core, group) for group in core.groups}
    episodes, _ = recordings.record(core, scripts, seed=seed)
    clones = {group: clone(episodes, agents_of(core, [group]), BCConfig(), seed=seed).policy for group in core.groups}
    for group, slack in (("adversary", 0.1), ("agent", 0.5)):
        script, copied, chance = (
            play(core, {**scripts, group: policy}, seed=seed + 100, greedy=True).returns[group]
            for policy in (scripts[group], clones[group], None)
        )
        lost, span = script.mean - copied.mean, script.mean - chance.mean
        assert lost < slack * span, f"{group}: {copied} of the clone, {script} of the script, {chance} by chance"
        assert copied.mean - copied.half > chance.mean + chance.half
    hunted, chance = (
        play(core, {"adversary": p}, seed=seed + 100).returns["adversary"] for p in (clones["adversary"], None)
    )
    assert hunted.mean - hunted.half > chance.mean + chance.half  # others than the recorded ones are chased too


# ---------------------------------------------------------------- gpu-envs clone

FAST = ["--device", "cpu", "--episodes", "16", "--learner.epochs", "2", "--learner.hidden", "16"]


@pytest.fixture(scope="module")
def cloned(tmp_path_factory):
    out = tmp_path_factory.mktemp("clone") / "run"
    tag = ["scripted", "--id", "TagGridworld-v0", "--env", "num_taggers=3", "--env", "use_full_observation=false"]
    assert clone_command([*tag, *FAST, "--out", str(out)]) == 0
    return out


def test_eval_reads_a_clone(cloned, capsys):
    assert eval_command([str(cloned), "--device", "cpu", "--episodes", "8", "--against", "scripted"]) == 0
    text = capsys.readouterr().out
    assert "other: scripted" in text
    assert text.count("trained ") >= 4
    assert text.count("other ") >= 3
    saved = checkpoint.load(cloned)
    assert saved.policies == ("runner", "tagger")
    assert TrainConfig.from_json(saved.config).env == GRID
    assert isinstance(saved.policy("tagger"), Policy)


def test_clone_of_recorded_episodes_and_of_one_group(cloned, tmp_path, capsys):
    argv = [str(cloned / "episodes"), *FAST, "--out", str(tmp_path / "one"), "--group", "tagger"]
    assert clone_command(argv) == 0
    assert checkpoint.load(tmp_path / "one").policies == ("tagger",)
    assert not (tmp_path / "one" / "episodes").exists()
    assert eval_command([str(tmp_path / "one"), "--device", "cpu", "--episodes", "8"]) == 0
    assert capsys.readouterr().out.splitlines()[-5].split()[:2] == ["tagger", "tagger"]  # not runner


def test_clone_of_trained_policies(tmp_path, capsys):
    assert train_command([*SMALL, "--out", str(tmp_path / "run"), "--eval-episodes", "0"]) == 0
    assert clone_command([str(tmp_path / "run"), *FAST, "--out", str(tmp_path / "clone")]) == 0
    assert "recorded 16 episodes of" in capsys.readouterr().out
    assert TrainConfig.from_json(checkpoint.load(tmp_path / "clone").config).env == {"num_good": 2}


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["scripted"], "clone scripted: expected an environment, got none"),
        (["scripted", "--id", "SimpleSpread-v0"], "SimpleSpread-v0: there are scripted policies for"),
        (["scripted", "--id", "SimpleTag-v0", "--group", "wolf"], "--group wolf: expected one of adversary, agent"),
        (["scripted", "--id", "SimpleTag-v0", "--learner.patience", "0"], "learner.patience = 0: expected >= 1"),
        (["nowhere"], "nowhere: expected a checkpoint"),
        (["nowhere", "--env", "num_good=2"], "--env num_good=2: expected with 'scripted' only"),
    ],
)
def test_errors_are_one_line(argv, words, tmp_path):
    with pytest.raises((ConfigError, CheckpointError), match=words) as caught:
        clone_command([*argv, "--device", "cpu", "--episodes", "2", "--out", str(tmp_path / "none")])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "none").exists()


def test_a_clone_is_not_trained_on(cloned, tmp_path):
    words = "algorithm = 'bc': it learns from recorded episodes, see gpu-envs clone --help"
    for argv in (["--resume", str(cloned)], ["SimpleTag-v0", "--algorithm", "bc"]):
        with pytest.raises(ConfigError, match=words):
            parse_train(argv)
    with pytest.raises(ConfigError, match=words):
        Trainer(TrainConfig("SimpleTag-v0", algorithm="bc"), tmp_path / "run")
