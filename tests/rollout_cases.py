"""Small environments and policies for rollouts in kernels, and their networks by PyTorch in float64."""

import dataclasses
import itertools

import torch
from gymnasium import spaces

import gpu_envs
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy

SMALL_TAG = {"num_taggers": 2, "num_runners": 3, "episode_length": 7}
CASES = {
    "discrete": ("SimpleSpread-v0", {"max_cycles": 6}),
    "turns": ("KuhnPoker-v0", {}),
    "leaving": ("TagContinuous-v0", SMALL_TAG),
    "box": ("Pendulum-v1", {"max_episode_steps": 7}),
}
"""Name of the case -> environment and settings, with episodes that end within 20 steps."""


def make_core(case, num_envs=6, device="cpu", **settings):
    """Return small environments after a reset."""
    env_id, defaults = CASES[case]
    core = gpu_envs.make(env_id, num_envs=num_envs, device=device, reuse_buffers=True, **{**defaults, **settings}).core
    core.reset(seed=3)
    return core


def outputs_of(space, squashed):
    """Return the number of outputs of a network for an action space."""
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return space.shape[0] * (2 if squashed else 1)


def make_policies(core, squashed=False, activation="tanh", hidden=(8,), seed=0, inputs=None):
    """Return a network of random weights for every group, and its kernel policy; it may read the first inputs only."""
    generator, networks, policies = torch.Generator().manual_seed(seed), {}, {}
    for number, (group, rows) in enumerate(core.groups.items()):
        name = core.possible_agents[rows[0]]
        space = core.action_spaces[name]
        widths = [inputs or core.observation_spaces[name].shape[0], *hidden, outputs_of(space, squashed)]
        layers = [
            (0.4 * torch.randn(out, into, generator=generator), 0.4 * torch.randn(out, generator=generator))
            for into, out in itertools.pairwise(widths)
        ]
        box = isinstance(space, spaces.Box)
        log_std = torch.full(space.shape, -0.5) if box and not squashed else None
        mean, var = torch.randn(widths[0], generator=generator), torch.rand(widths[0], generator=generator) + 0.5
        networks[group] = (layers, log_std, mean, var, activation)
        policies[group] = KernelPolicy.from_tensors(
            layers, space, activation=activation, log_std=log_std, mean=mean, var=var, seed=7 + number
        )
    return networks, policies


def network_outputs(network, obs):
    """Return the outputs of a network in float64."""
    layers, _, mean, var, activation = network
    x = ((obs.double() - mean) * torch.rsqrt(var.double() + 1e-8)).clamp(-10.0, 10.0)
    for number, (weight, bias) in enumerate(layers):
        x = x @ weight.double().T + bias.double()
        if number < len(layers) - 1:
            x = torch.tanh(x) if activation == "tanh" else torch.relu(x)
    return x


def log_probs_of(space, outputs, action, mask, log_std):
    """Return the log-probabilities of actions in float64, by torch.distributions."""
    if isinstance(space, spaces.Box):
        size = space.shape[0]
        if log_std is None:
            mean, raw = outputs.split(size, -1)
            std = (-5.0 + 3.5 * (torch.tanh(raw) + 1.0)).exp()
            slope = torch.log1p(-torch.tanh(action.double()).square())
            return (torch.distributions.Normal(mean, std).log_prob(action.double()) - slope).sum(-1)
        return torch.distributions.Normal(outputs, log_std.double().exp()).log_prob(action.double()).sum(-1)
    sizes = space.nvec.tolist() if isinstance(space, spaces.MultiDiscrete) else [int(space.n)]
    if mask is not None:
        outputs = outputs.masked_fill(~mask, -torch.inf)
    parts = outputs.split(sizes, -1)
    chosen = action if action.dim() == outputs.dim() else action.unsqueeze(-1)
    return sum(torch.distributions.Categorical(logits=part).log_prob(chosen[..., k]) for k, part in enumerate(parts))


def equal(left, right):
    """Compare the buffers of two rollouts bit for bit."""
    for field in dataclasses.fields(left):
        a, b = getattr(left, field.name), getattr(right, field.name)
        assert (a is None and b is None) or torch.equal(a, b), field.name
