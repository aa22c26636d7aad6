"""Actor-critic learners of all kinds: invalid rows, resumed runs, images."""

import gymnasium
import pictures
import pytest
import torch
from actor_critics import KINDS, learner_for, trainer_of
from toy import announce
from toy_core import Corridor

import gpu_envs
import trainers
from trainers.algorithms.on_policy.ppo import PPOConfig
from trainers.storage import checkpoint


def fill(learner, poison: float | None) -> None:
    """Fill a rollout with fixed content in which a third of the rows is invalid; those and unused rows get `poison`."""
    r, g = learner.rollout, torch.Generator().manual_seed(5)

    def junk(tensor: torch.Tensor, mask: torch.Tensor) -> None:
        if poison is not None:
            tensor.masked_fill_(mask.view(*mask.shape, *[1] * (tensor.dim() - mask.dim())), poison)

    r.obs.copy_(torch.randn(r.obs.shape, generator=g))
    r.action.copy_(torch.randint(2, r.action.shape, generator=g))
    r.log_prob.fill_(-0.6931)
    r.reward.copy_(torch.randn(r.reward.shape, generator=g))
    r.last_obs.copy_(torch.randn(r.last_obs.shape, generator=g))
    r.episode_starts.fill_(False)
    # agents of world 0 die at step 2 and stay dead; world 1's are dead until its next episode starts at step 4
    r.valid.fill_(True)
    r.valid[3:, 0] = False
    r.terminated[2, 0] = True
    r.valid[:4, 1] = False
    r.episode_starts[4, 1] = True
    # world 2 is cut at step 5
    r.truncated[5, 2] = True
    r.episode_starts[6, 2] = True
    r.final_slot[5, 2] = torch.tensor([0, 1])
    r.final_obs[:2] = torch.randn((2, r.final_obs.shape[1]), generator=g)
    r.final_count.fill_(2)
    for tensor in (r.obs, r.reward, r.log_prob):
        junk(tensor, ~r.valid)
    junk(r.last_obs, ~r.valid[-1])
    junk(r.final_obs[2:], torch.ones(len(r.final_obs) - 2, dtype=torch.bool))
    if learner.net.critic_input is not None:
        width = learner.net.critic_input.normalizer.mean.shape[0]
        r.state = torch.randn((r.length + 1, *r.valid.shape[1:2], width), generator=g)
        r.final_state = torch.randn(r.state.shape, generator=g)
        cut = torch.zeros(r.state.shape[:2], dtype=torch.bool)
        cut[5, 2] = True
        junk(r.final_state, ~cut)
    if learner.recurrent_state is not None:
        for start in learner.recurrent_state.starts().values():
            start.copy_(torch.randn(start.shape, generator=g))
            junk(start, ~r.valid[0])
    r.t = r.length


@pytest.mark.parametrize("poison", [1e9, float("nan")])
@pytest.mark.parametrize("kind", KINDS)
def test_invalid_rows_do_not_change_losses_or_statistics(kind, poison):
    core = Corridor(8)
    clean, dirty = learner_for(kind, core, state_width=5), learner_for(kind, core, state_width=5)
    fill(clean, None)
    fill(dirty, poison)
    first, second = clean.update(), dirty.update()
    for name, tensor in clean.net.state_dict().items():
        assert torch.isfinite(tensor).all()
        assert torch.equal(tensor, dirty.net.state_dict()[name]), name
    assert {name: float(v) for name, v in first.items()} == {name: float(v) for name, v in second.items()}
    assert float(clean.net.normalizer.count) == float(clean.rollout.valid.sum())
    if clean.net.critic_input is not None:
        assert float(clean.net.critic_input.normalizer.count) == float(clean.rollout.valid.any(-1).sum())


@pytest.mark.parametrize("body", ["mlp", "gru"])
def test_advantages_are_normalized_over_valid_rows(body):
    learner = learner_for("recurrent", Corridor(8), network=body)
    fill(learner, None)
    batch = learner.batch()
    advantage = batch["advantage"][batch["valid"]] if body == "gru" else batch["advantage"]
    assert len(advantage) == int(learner.rollout.valid.sum()) < learner.rollout.valid.numel()
    torch.testing.assert_close(advantage.mean(), torch.tensor(0.0))
    torch.testing.assert_close(advantage.std(correction=0), torch.tensor(1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_rollout_without_valid_rows_changes_nothing(kind):
    learner = learner_for(kind, Corridor(4), state_width=5)
    previous = {name: tensor.clone() for name, tensor in learner.net.state_dict().items()}
    if learner.net.critic_input is not None:
        learner.rollout.state = learner.rollout.final_state = torch.zeros(9, 4, 5)
    learner.rollout.t = learner.rollout.length
    assert learner.update() == {}
    assert all(torch.equal(tensor, previous[name]) for name, tensor in learner.net.state_dict().items())


@pytest.mark.parametrize("network", ["cnn", "resnet"])
def test_convolutional_policy_plays_connect_four(network, tmp_path):
    config = PPOConfig(rollout_length=8, network=network, image=(2, 6, 7), conv_filters=(4,), hidden_sizes=(8,))
    trainer = trainer_of("ConnectFour-v0", config, tmp_path, num_envs=4, total_steps=32, eval_episodes=4)
    previous = trainer.assignments["player"].learner.actor.module.convolutions[0].weight.clone()
    trainer.run()
    learner = trainer.assignments["player"].learner
    assert not torch.equal(previous, learner.actor.module.convolutions[0].weight)
    loaded = checkpoint.load(tmp_path).policy("player")
    obs, mask = trainer.core.obs, trainer.core.action_mask
    assert torch.equal(loaded.act(obs, mask, greedy=True), learner.policy().act(obs, mask, greedy=True))


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize(
    ("kind", "images"),
    [("uint8", [(0, [4, 3, 2])]), ("named", [(5, [2, 2, 3]), (20, [2, 1, 2])])],
    ids=["one", "named"],
)
def test_cnn_takes_the_images_of_the_observation_space(monkeypatch, tmp_path, kind, images, channels_first):
    announce(monkeypatch, "Pictures-v0", pictures)
    config = PPOConfig(rollout_length=8, network="cnn", conv_filters=(4,), conv_strides=(2,), hidden_sizes=(8,))
    env = {"channels_first": channels_first, "kind": kind}
    trainer = trainer_of("Pictures-v0", config, tmp_path, num_envs=4, total_steps=32, env=env)
    actor = trainer.assignments["viewer"].learner.actor
    if channels_first:
        images = [(start, [*sides, channels]) for start, (channels, *sides) in images]
    assert actor.module.images == images
    assert actor.module.channels_last == (not channels_first)
    trainer.run()
    policy = trainers.load_policy(tmp_path)
    observations, _ = gpu_envs.make("Pictures-v0", 3, "cpu", kind=kind).reset(seed=0)
    flat = torch.arange(24.0).remainder(2).expand(3, 24)
    assert torch.equal(policy.act(observations["viewer_0"], greedy=True), policy.act(flat, greedy=True))
    world = gpu_envs.parallel_env("Pictures-v0", kind=kind)
    action = policy.act(world.reset(seed=0)[0]["viewer_1"], greedy=True)
    assert action == policy.act(flat[0], greedy=True)
    rows = gymnasium.make_vec("gpu_envs/Pictures-v0", 3, agent="viewer_0", opponents=policy, device="cpu", kind=kind)
    observations, _ = rows.reset(seed=0)
    assert policy.act(observations).shape == (3,)
    rows.step(policy.act(observations))
