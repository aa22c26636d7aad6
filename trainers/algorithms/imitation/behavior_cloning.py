"""Behaviour cloning: a policy fitted to what was done in recorded episodes (Pomerleau 1991; Bain and Sammut 1995).

Supervised learning, in place of a learner that plays: the likelihood of the recorded actions is maximised until it no
longer grows on episodes that were held back.
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
from gpu_envs.recording import Episode
from trainers.agents import Agents
from trainers.bodies import BodyConfig, Network
from trainers.boxes import GaussianHead
from trainers.heads import Head, action_spec, make_head
from trainers.logs import Progress
from trainers.nets import ObservationNormalizer
from trainers.policy import Policy
from trainers.settings import check_settings, setting

MIN_LOG_STD = -5.0
"""Of continuous policies: a deterministic player would drive it, and the loss, to minus infinity."""


@dataclass(frozen=True)
class BCConfig(BodyConfig):
    """Settings of behaviour cloning."""

    epochs: int = setting(50, ">= 1")
    """Passes over the episodes, at most."""
    patience: int = setting(5, ">= 1")
    """Passes without a better validation loss after which the fit ends; the best one is kept."""
    validation: float = setting(0.1, "in [0, 1]")
    """Share of the episodes that is held back, at least one."""
    batch_size: int = setting(1024, ">= 1")
    """Decisions per gradient step."""
    learning_rate: float = setting(1e-3, "> 0")
    """Adam's step size."""
    init_log_std: float = -1.0
    """Log standard deviation that continuous policies start from."""

    def __post_init__(self) -> None:
        """Raises ConfigError on the first bad value."""
        check_settings(self, "learner.")
        if self.body == "gru":
            raise ConfigError("learner.body = 'gru': expected 'mlp' or 'cnn', decisions are cloned one by one")


@dataclass(frozen=True)
class Decisions:
    """What agents of one policy saw and did, N times, on one device."""

    obs: Tensor
    """(N, D)."""
    action: Tensor
    """(N) or (N, K), as the environment took it."""
    mask: Tensor | None
    """(N, choices) True = legal; None: all are."""

    def __len__(self) -> int:
        return len(self.obs)

    def rows(self, rows: Tensor) -> Decisions:
        """Some of them, by their numbers (B,)."""
        return Decisions(self.obs[rows], self.action[rows], None if self.mask is None else self.mask[rows])


@dataclass(frozen=True)
class Clone:
    """What a fit gave."""

    policy: Policy
    """The best of all passes, by the loss."""
    epochs: int
    """Passes until the best."""
    loss: float
    """Negative log-likelihood of a decision held back [nats]."""
    agreement: float
    """Share of the decisions held back that the clone's most probable action is the same in; nan if continuous."""


def decisions(episodes: Sequence[Episode], agents: Agents, device: torch.device | str) -> Decisions:
    """What some agents decided in episodes: rows of who had left, or was not on the move, are left out."""
    if isinstance(agents.rows, Tensor):
        agents = replace(agents, rows=agents.rows.cpu())  # where episodes are
    rows, obs, action, mask = agents.rows, [], [], []
    for episode in episodes:
        decided = episode.valid[:, rows]
        if episode.to_move is not None:
            decided = decided & episode.to_move[:, rows]
        obs.append(episode.obs[:, rows, : agents.width][decided])
        own = episode.action[:, rows]
        action.append((own if own.dim() == 2 else own[..., : _components(agents.space)])[decided])
        if (legal := agents.mask(episode.action_mask)) is not None:
            mask.append(legal[decided])
    legal = torch.cat(mask).to(device) if mask else None
    return Decisions(torch.cat(obs).to(device), torch.cat(action).to(device), legal)


def _components(space: spaces.Space[Any]) -> int:
    """K, without the padding for agents of more."""
    assert space.shape is not None
    return space.shape[0]


def clone(
    episodes: Sequence[Episode],
    agents: Agents,
    config: BCConfig,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | None = None,
) -> Clone:
    """Fits a policy to what some agents did.

    Args:
        episodes: At least two.
        agents: Whose decisions, see `trainers.agents.agents_of`.
        config: Settings.
        device: Where the decisions are kept and learned from.
        seed: Of initial weights, the split and the minibatches.
        progress: Called after every pass.

    Raises:
        ConfigError: Fewer than two episodes, or no decisions of these agents among them.
        GpuEnvsError: The loss is no longer finite.
    """
    if len(episodes) < 2:
        raise ConfigError(f"expected at least 2 episodes, one to learn from and one to check with, got {len(episodes)}")
    weights = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(episodes), generator=weights).tolist()
    held = min(max(round(config.validation * len(episodes)), 1), len(episodes) - 1)
    train, check = (decisions([episodes[i] for i in part], agents, device) for part in (order[held:], order[:held]))
    if not len(train) or not len(check):
        raise ConfigError(f"expected decisions to learn from and to check with, got {len(train)} and {len(check)}")

    action = action_spec(agents.space, config.init_log_std)
    spec = {**config.spec(agents.width), "action": action}
    head, normalizer = make_head(action), ObservationNormalizer(agents.width)
    actor = Network(spec, head.num_params, 0.01, weights)
    net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head}).to(device)
    normalizer.update(train.obs)
    optimizer = torch.optim.Adam(net.parameters(), lr=config.learning_rate)
    generator = torch.Generator(device).manual_seed(seed)

    def loss_of(batch: Decisions) -> Tensor:
        params = actor(normalizer(batch.obs))
        return -head.evaluate(params, _from_env(head, batch.action), batch.mask)[0].mean()

    best, best_epoch, kept = math.inf, 0, copy.deepcopy(net.state_dict())
    for epoch in range(1, config.epochs + 1):
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
                f"behaviour cloning: loss is {loss} after pass {epoch}; try a lower learner.learning_rate"
            )
        if loss < best:
            best, best_epoch, kept = loss, epoch, copy.deepcopy(net.state_dict())
        if progress is not None:
            progress(epoch, f"validation loss {loss:.3f}")
        if epoch - best_epoch >= config.patience:
            break
    net.load_state_dict(kept)
    policy = Policy(spec, normalizer, actor, head, seed)

    def agreement_of(batch: Decisions) -> Tensor:
        same = policy.act(batch.obs, batch.mask, greedy=True) == batch.action
        return (same if same.dim() == 1 else same.all(-1)).float().mean()

    continuous = isinstance(head, GaussianHead)
    agreement = math.nan if continuous else _mean_over(check, config.batch_size, agreement_of)
    return Clone(policy, best_epoch, best, agreement)


def _mean_over(data: Decisions, size: int, of: Callable[[Decisions], Tensor]) -> float:
    """Mean over all decisions of what `of` gives for batches of them."""
    batches = torch.arange(len(data), device=data.obs.device).split(size)
    return float(sum(of(data.rows(rows)) * len(rows) for rows in batches) / len(data))


def _from_env(head: Head, action: Tensor) -> Tensor:
    """What the head would have drawn, the inverse of its `to_env`."""
    if isinstance(head, GaussianHead) and head.bounded:
        return 2.0 * (action - head.low) / (head.high - head.low) - 1.0
    return action
