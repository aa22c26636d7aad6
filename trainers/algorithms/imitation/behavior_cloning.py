"""Behavior cloning: fit a policy to recorded actions (Pomerleau 1991; Bain and Sammut 1995).

This is supervised learning, without a learner that plays. It maximizes the likelihood of the recorded actions until the
likelihood on validation episodes stops growing.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from gpu_envs.errors import ConfigError, GpuEnvsError
from gpu_envs.runtime.episode_recorder import Episode
from gpu_envs.utils.progress import Progress
from gpu_envs.utils.settings import check_settings, setting
from trainers.base.agent_group import AgentGroup
from trainers.models.action_heads import GaussianHead, Head, action_spec, make_head
from trainers.models.networks import Network, NetworkConfig
from trainers.models.normalization import ObservationNormalizer
from trainers.models.policy import Policy, mask_spec

MIN_LOG_STD = -5.0
"""Lower bound of a continuous policy's log standard deviation. Deterministic recordings would drive it to minus
infinity."""


@dataclass(frozen=True)
class BCConfig(NetworkConfig):
    """Settings of behavior cloning."""

    num_epochs: int = setting(50, ge=1)
    """Largest number of passes over the episodes."""
    patience: int = setting(5, ge=1)
    """Passes without a better validation loss after which training ends. The best policy is kept."""
    validation: float = setting(0.1, ge=0, le=1)
    """Share of the episodes used for validation, at least one episode."""
    batch_size: int = setting(1024, ge=1)
    """Decisions per gradient step."""
    learning_rate: float = setting(1e-3, gt=0)
    """Step size of Adam. Lower it if the loss is not finite."""
    init_log_std: float = -1.0
    """Initial log standard deviation of continuous policies."""

    def __post_init__(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        check_settings(self, "learner.")


@dataclass(frozen=True)
class Decisions:
    """N observations and actions of agents of one policy, on one device."""

    obs: Tensor
    """(N, D) observations."""
    action: Tensor
    """(N) or (N, K) environment actions."""
    mask: Tensor | None
    """(N, choices), True = legal; None: all actions are legal."""

    def __len__(self) -> int:
        return len(self.obs)

    def rows(self, rows: Tensor) -> Decisions:
        """Return the decisions with indices (B,)."""
        return Decisions(self.obs[rows], self.action[rows], None if self.mask is None else self.mask[rows])


@dataclass(frozen=True)
class CloningResult:
    """Result of behavior cloning."""

    policy: Policy
    """Policy of the pass with the lowest validation loss."""
    epochs: int
    """Number of passes until that policy."""
    loss: float
    """Negative log-likelihood per validation decision [nats]."""
    agreement: float
    """Share of validation decisions that equal the policy's most probable action; nan for continuous actions."""


def collect_decisions(episodes: Sequence[Episode], agents: AgentGroup, device: torch.device | str) -> Decisions:
    """Return the decisions of agents in episodes, without steps at which they were dead or not to move."""
    if isinstance(agents.rows, Tensor):
        agents = replace(agents, rows=agents.rows.cpu())  # episodes are on the CPU
    rows, obs, action, mask = agents.rows, [], [], []
    for episode in episodes:
        decided = episode.valid[:, rows]
        if episode.to_move is not None:
            decided = decided & episode.to_move[:, rows]
        obs.append(episode.obs[:, rows, : agents.obs_width][decided])
        values = episode.action[:, rows]
        action.append((values if values.dim() == 2 else values[..., : _components(agents.space)])[decided])
        if (legal := agents.mask(episode.action_mask)) is not None:
            mask.append(legal[decided])
    legal = torch.cat(mask).to(device) if mask else None
    return Decisions(torch.cat(obs).to(device), torch.cat(action).to(device), legal)


def _components(space: spaces.Space[Any]) -> int:
    """Return the number of action components K, without padding."""
    assert space.shape is not None
    return space.shape[0]


@torch.inference_mode(False)  # gradients are enabled whatever the caller's mode is
def clone(
    episodes: Sequence[Episode],
    agents: AgentGroup,
    config: BCConfig,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
) -> CloningResult:
    """Fit a policy to the recorded decisions of some agents.

    Args:
        episodes: At least two recorded episodes.
        agents: Agents to imitate, see `trainers.base.agent_group.make_agent_group`.
        config: Settings.
        device: Device of the decisions and the training.
        seed: Random seed of initial weights, the split and the minibatches.
        progress: Called after every pass.

    Raises:
        ConfigError: There are fewer than two episodes, or no decisions of these agents.
        GpuEnvsError: The loss is not finite.
    """
    if len(episodes) < 2:
        raise ConfigError(f"expected at least 2 episodes, for training and validation, got {len(episodes)}")
    weights = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(episodes), generator=weights).tolist()
    size = min(max(round(config.validation * len(episodes)), 1), len(episodes) - 1)
    train, check = (
        collect_decisions([episodes[i] for i in part], agents, device) for part in (order[size:], order[:size])
    )
    if not len(train) or not len(check):
        raise ConfigError(f"expected decisions for training and validation, got {len(train)} and {len(check)}")

    action = action_spec(agents.space, config.init_log_std)
    network = config.spec(agents.obs_width, agents.layout)
    spec = {**network, **mask_spec(train.mask is not None), "action": action}
    head, normalizer = make_head(action), ObservationNormalizer(agents.obs_width, spec)
    actor = Network(spec, head.num_params, 0.01, weights)
    actor.check_feedforward("behavior cloning", "mlp or cnn")
    net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head}).to(device)
    normalizer.update(train.obs)
    optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate)
    generator = torch.Generator(device).manual_seed(seed)

    def loss_of(batch: Decisions) -> Tensor:
        params = actor(normalizer(batch.obs), batch.mask)
        return -head.evaluate(params, _from_env(head, batch.action), batch.mask)[0].mean()

    best, best_epoch, best_weights = math.inf, 0, copy.deepcopy(net.state_dict())
    for epoch in range(1, config.num_epochs + 1):
        for rows in torch.randperm(len(train), generator=generator, device=device).split(config.batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss_of(train.rows(rows)).backward()
            optimizer.step()
            if isinstance(head, GaussianHead):
                head.log_std.data.clamp_(min=MIN_LOG_STD)
        with torch.no_grad():
            loss = _mean_over(check, config.batch_size, loss_of)
        if not math.isfinite(loss):
            raise GpuEnvsError(
                f"behavior cloning: expected a finite loss, got {loss} after pass {epoch}; lower learner.learning_rate"
            )
        if loss < best:
            best, best_epoch, best_weights = loss, epoch, copy.deepcopy(net.state_dict())
        if progress is not None:
            progress(epoch, f"validation loss {loss:.3f}")
        if epoch - best_epoch >= config.patience:
            break
    net.load_state_dict(best_weights)
    policy = Policy(spec, normalizer, actor, head, seed)

    def agreement_of(batch: Decisions) -> Tensor:
        same = policy.act(batch.obs, batch.mask, greedy=True) == batch.action
        return (same if same.dim() == 1 else same.all(-1)).float().mean()

    continuous = isinstance(head, GaussianHead)
    agreement = math.nan if continuous else _mean_over(check, config.batch_size, agreement_of)
    return CloningResult(policy, best_epoch, best, agreement)


def _mean_over(data: Decisions, size: int, of: Callable[[Decisions], Tensor]) -> float:
    """Return the mean over all decisions of `of`, evaluated in batches."""
    batches = torch.arange(len(data), device=data.obs.device).split(size)
    return float(sum(of(data.rows(rows)) * len(rows) for rows in batches) / len(data))


def _from_env(head: Head, action: Tensor) -> Tensor:
    """Return the head's samples for environment actions, the inverse of `to_env`."""
    if isinstance(head, GaussianHead) and head.bounded:
        return 2.0 * (action - head.low) / (head.high - head.low) - 1.0
    return action
