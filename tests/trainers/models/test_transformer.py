"""The transformer of a team: attention as PyTorch computes it, causality, absent agents, masks and noise."""

import pytest
import torch
from gymnasium import spaces
from torch import nn

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.algorithms.on_policy.sequential.mat import MATConfig
from trainers.base.random_streams import StreamSlice
from trainers.models.action_heads import action_spec, make_head
from trainers.models.networks import Network, actor_width, team_inputs, with_ids
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy
from trainers.models.transformer import DecoderBlock, EncoderBlock

WIDTH, AGENTS, TEAMS = 5, 3, 16
SPACES = {
    "discrete": spaces.Discrete(4),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "continuous": spaces.Box(-2.0, 3.0, (2,)),
    "unbounded": spaces.Box(-torch.inf, torch.inf, (2,)),
    "tanh_gaussian": spaces.Box(-2.0, 3.0, (2,)),
}
KINDS = tuple(SPACES)


def team_of(kind="discrete", agents=AGENTS, has_mask=False, **settings) -> Policy:
    """Return a policy with weights that are far from uniform."""
    config = MATConfig(**{"hidden_sizes": (8, 8), "num_heads": 2, **settings})
    action = action_spec(SPACES[kind], 0.0, "tanh_gaussian" if kind == "tanh_gaussian" else "continuous")
    spec = {**config.spec(WIDTH), "action": action, "ids": agents}
    if has_mask:
        spec["has_action_mask"] = True
    head, generator = make_head(action), torch.Generator().manual_seed(0)
    actor = Network(actor_width(spec), head.num_params, 1.0, generator)
    randomize(actor)
    return Policy(spec, ObservationNormalizer(WIDTH), actor, head)


@torch.no_grad()
def randomize(module: nn.Module, seed: int = 0) -> None:
    """Draw all parameters anew, so that no bias is 0 and no scale is 1."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator) * (0.7 if parameter.dim() > 1 else 0.5))


def observations(agents=AGENTS, teams=TEAMS, seed=1):
    return torch.randn((teams, agents, WIDTH), generator=torch.Generator().manual_seed(seed))


def parallel(policy, obs, action):
    """Return the parameters that training computes for stored actions."""
    x, net, head = policy.inputs(obs), policy.actor.module, policy.head
    return net.decode(x, net.encode(x), head.encode(head.to_env(action)))


def copy_attention(ours, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in (ours.query, ours.key, ours.value)]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in (ours.query, ours.key, ours.value)]))
        theirs.out_proj.load_state_dict(ours.out.state_dict())


@pytest.mark.parametrize("heads", [1, 4])
def test_encoder_block_is_the_layer_of_pytorch(heads):
    block = EncoderBlock(8, heads, nn.GELU, None)
    randomize(block)
    layer = nn.TransformerEncoderLayer(8, heads, 8, dropout=0.0, activation="gelu", batch_first=True)
    copy_attention(block.attention, layer.self_attn)
    for ours, theirs in ((block.mlp[0], layer.linear1), (block.mlp[2], layer.linear2)):
        theirs.load_state_dict(ours.state_dict())
    for ours, theirs in zip(block.norms, (layer.norm1, layer.norm2), strict=True):
        theirs.load_state_dict(ours.state_dict())
    x = torch.randn((6, 4, 8), generator=torch.Generator().manual_seed(0))
    absent = torch.rand((6, 4), generator=torch.Generator().manual_seed(0)) < 0.4
    absent[:, 0] = False
    expected = layer(x, src_key_padding_mask=absent)
    actual = block(x, ~absent[:, None, None, :] | torch.eye(4, dtype=torch.bool))
    torch.testing.assert_close(actual[~absent], expected[~absent])
    assert not torch.allclose(layer(x)[~absent], expected[~absent])


@pytest.mark.parametrize("heads", [1, 4])
def test_decoder_block_attends_as_in_the_paper(heads):
    """Figure 2: actions attend to earlier actions, then observations to the result."""
    block = DecoderBlock(8, heads, nn.GELU, None)
    randomize(block)
    first, second = (nn.MultiheadAttention(8, heads, batch_first=True) for _ in range(2))
    copy_attention(block.attentions[0], first)
    copy_attention(block.attentions[1], second)
    generator = torch.Generator().manual_seed(0)
    x, encoded = (torch.randn((6, 4, 8), generator=generator) for _ in range(2))
    later = torch.ones((4, 4), dtype=torch.bool).triu(1)
    among = block.norms[0](x + first(x, x, x, attn_mask=later)[0])
    joint = block.norms[1](encoded + second(encoded, among, among, attn_mask=later)[0])
    expected = block.norms[2](joint + block.mlp(joint))
    torch.testing.assert_close(block(x, encoded, ~later, None), expected)


@pytest.mark.parametrize("agents", [1, AGENTS])
@pytest.mark.parametrize("kind", KINDS)
def test_acting_and_training_have_equal_distributions(kind, agents):
    """One agent after another with cached keys, or all at once with the stored actions; some agents are absent."""
    policy, obs = team_of(kind, agents), observations(agents)
    if agents > 1:
        obs[:4, 0] = obs[4:8, 1] = 0.0
    generator, net = torch.Generator().manual_seed(0), policy.actor.module
    action, params = net.act(policy.inputs(obs), None, policy.head, generator)
    assert bool(params.isfinite().all())
    torch.testing.assert_close(parallel(policy, obs, action), params)
    log_prob = policy.head.evaluate(parallel(policy, obs, action), action, None)[0]
    torch.testing.assert_close(log_prob, policy.head.evaluate(params, action, None)[0], rtol=1e-4, atol=1e-4)
    greedy, params = net.act(policy.inputs(obs), None, policy.head, None)
    torch.testing.assert_close(policy.head.mode(parallel(policy, obs, greedy), None), greedy)
    assert torch.equal(policy.act(obs, greedy=True), policy.head.to_env(greedy))


@pytest.mark.parametrize("kind", KINDS)
def test_an_action_changes_later_agents_only_and_an_observation_all(kind):
    policy, obs = team_of(kind), observations()
    action = policy.actor.module.act(policy.inputs(obs), None, policy.head, torch.Generator().manual_seed(0))[0]
    params = parallel(policy, obs, action)
    for agent in range(AGENTS):
        other = action.clone()
        other[:, agent] = (
            (action[:, agent] + 1) % 2 if "discrete" in kind else (action[:, agent] * 0.5).clamp(-0.5, 0.5)
        )
        change = (parallel(policy, obs, other) - params).abs().amax(-1)
        assert not change[:, : agent + 1].any()
        assert bool((change[:, agent + 1 :] > 1e-6).all())
        other_obs = obs.clone()
        other_obs[:, agent] += 0.5
        assert bool(((parallel(policy, other_obs, action) - params).abs().amax(-1) > 1e-6).all())


def test_agents_do_not_depend_on_absent_ones():
    policy, obs = team_of(), observations()
    absent = torch.zeros((TEAMS, AGENTS), dtype=torch.bool)
    absent[:8, 0] = absent[4:12, 1] = True
    obs[absent] = 0.0
    action = torch.randint(4, (TEAMS, AGENTS), generator=torch.Generator().manual_seed(0))
    net, x = policy.actor.module, policy.inputs(obs)
    params, encoded = parallel(policy, obs, action), net.encode(x)
    other = torch.where(absent, (action + 1) % 4, action)
    torch.testing.assert_close(parallel(policy, obs, other)[~absent], params[~absent])
    noise = x.clone()
    noise[..., :WIDTH][absent] = 3.0  # indices of absent agents stay 0
    torch.testing.assert_close(net.encode(noise)[~absent], encoded[~absent])
    assert not torch.allclose(net.encode(noise)[absent], encoded[absent])


def test_inputs_of_absent_agents_are_zeros_unless_all_are():
    obs = torch.tensor([[[1.0], [0.0]], [[0.0], [0.0]]])
    x = team_inputs(with_ids(obs - 5.0, 2), obs)
    assert x.tolist() == [[[-4, 1, 0], [0, 0, 0]], [[-5, 1, 0], [-5, 0, 1]]]


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("kind", ["discrete", "multi_discrete"])
def test_illegal_actions_are_never_chosen(kind, greedy):
    policy, obs = team_of(kind, has_mask=True), observations(teams=200)
    sizes, generator = policy.head.sizes, torch.Generator().manual_seed(0)
    legal = [torch.rand((200, AGENTS, size), generator=generator) < 0.4 for size in sizes]
    for part in legal:
        part[..., 0] |= ~part.any(-1)
    action = policy.act(obs, torch.cat(legal, -1), greedy).view(200, AGENTS, -1)
    for part, index in zip(legal, action.unbind(-1), strict=True):
        assert bool(part.gather(-1, index.unsqueeze(-1)).all())
    with pytest.raises(ConfigError, match="policy: mask: expected the legal actions, got none"):
        policy.act(obs)


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_actions_of_a_world_do_not_depend_on_other_worlds(kind):
    """Neither on their number, which decides how much noise is drawn, nor on the rank that plays them."""
    policy, obs = team_of(kind), observations(teams=64)

    def sample(obs, rows=None):
        generator = torch.Generator().manual_seed(3)
        stream = generator if rows is None else StreamSlice(generator, 64, rows)
        return policy.actor.module.act(policy.inputs(obs), None, policy.head, stream)[0]

    every = sample(obs)
    torch.testing.assert_close(sample(obs[:32]), every[:32])
    torch.testing.assert_close(sample(obs[20:30], slice(20, 30)), every[20:30])


def test_policy_takes_any_leading_axes_and_comes_back_from_disk(tmp_path):
    policy, obs = team_of(), observations()
    policy.save(tmp_path / "policy")
    loaded = Policy.load(tmp_path / "policy")
    expected = policy.act(obs, greedy=True)
    assert torch.equal(loaded.act(obs.view(2, 8, AGENTS, WIDTH), greedy=True).flatten(0, 1), expected)
    assert torch.equal(loaded.act(obs[0], greedy=True), expected[0])
    with pytest.raises(ConfigError, match=r"policy with indices of 3 agents: expected observations \(..., 3, D\)"):
        loaded.act(obs[:, :2])
    file = tmp_path / "policy.json"
    file.write_text(file.read_text().replace('"ids": 3', '"ids": 0'))
    with pytest.raises(CheckpointError, match="expected a policy that distinguishes agents, got ids = 0"):
        Policy.load(tmp_path / "policy")


@pytest.mark.parametrize("settings", [{"hidden_sizes": (8, 4)}, {"hidden_sizes": ()}, {"num_heads": 3}])
def test_widths_that_no_block_can_have_are_refused(settings):
    with pytest.raises(ConfigError, match=r"learner.hidden_sizes: expected equal widths, multiples of num_heads = \d"):
        team_of(**settings)
