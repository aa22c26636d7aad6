"""Policies that are tables: probabilities by observation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from league.exact.tree import Tree
from trainers.files import read_json, read_tensors, write_json, write_tensors
from trainers.heads import CategoricalHead
from trainers.policy import Plays, Policy

FORMAT = "gpu-envs table 1"  # of a table's JSON file
_MULTIPLIERS = 0x51ED270B  # seed of the hash


class TablePolicy:
    """Plays what a table says for an observation, a draw for every action; with a random stream of its own.

    An observation that the table does not have is played uniformly over legal actions. Observations are found by a
    64-bit hash and then compared, so that none is taken for another; the host never looks at them.

    On disk it is `<path>.safetensors` beside `<path>.json`.
    """

    def __init__(self, observations: Tensor, table: Tensor, seed: int = 0) -> None:
        """Takes observations (I, D), all different, and probabilities (I, C) of actions there.

        Raises:
            ConfigError: The shapes do not fit together, observations are not different or not finite, or probabilities
                are none.
        """
        if observations.dim() != 2 or table.dim() != 2 or len(table) != len(observations) or not len(table):
            shapes = f"{tuple(observations.shape)} and {tuple(table.shape)}"
            raise ConfigError(f"table policy: expected observations (I, D) and a table (I, C), got {shapes}")
        if (table < 0).any() or not torch.allclose(table.double().sum(-1), torch.ones_like(table[:, 0]).double()):
            raise ConfigError("table policy: expected probabilities that sum to 1 in every row")
        device = observations.device
        self.width, self.choices = observations.shape[1], table.shape[1]
        generator = torch.Generator().manual_seed(_MULTIPLIERS)
        multipliers = torch.randint(-(2**63), 2**63 - 1, (self.width,), generator=generator) | 1
        self.multipliers = multipliers.to(device)
        self.keys, order = self._hash(observations.float()).sort()
        self.observations = observations.float()[order]
        self.table = table.to(device, torch.float64)[order]
        if not observations.isfinite().all() or (self.keys[1:] == self.keys[:-1]).any():
            raise ConfigError("table policy: expected finite observations, all different")
        self.generator = torch.Generator(device).manual_seed(seed)

    @classmethod
    def of(cls, tree: Tree, table: Tensor, seat: int, seed: int = 0, device: torch.device | str = "cpu") -> TablePolicy:
        """The policy that plays a table (I, C) of a tree's seat."""
        return cls(tree.observations[seat].to(device), table, seed)

    def probabilities(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Of the actions, (..., C) float64, for observations and masks as `act` takes them."""
        obs = obs[..., : self.width]
        place = torch.searchsorted(self.keys, self._hash(obs)).clamp_(max=len(self.keys) - 1)
        known = (self.observations[place] == obs).all(-1, keepdim=True)
        legal = torch.ones_like(self.table[place]) if mask is None else mask.double()
        odds = torch.where(known, self.table[place] * legal, legal)
        odds = torch.where(odds.sum(-1, keepdim=True) > 0, odds, legal)
        return odds / odds.sum(-1, keepdim=True)

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions (...) int64, see `trainers.policy.Policy.act`."""
        odds = self.probabilities(obs, mask)
        if greedy:
            return odds.argmax(-1)
        # an exponential race: the first to arrive is a sample, without the host sync of torch.multinomial
        race = torch.empty_like(odds).exponential_(generator=self.generator).clamp_(min=1e-300)
        return (odds / race).argmax(-1)

    def memory(self, *shape: int) -> Tensor | None:
        """It remembers nothing."""
        return None

    def seed(self, seed: int) -> None:
        """Restarts the stream that samples are drawn from."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Writes `<path>.safetensors` and `<path>.json`, each whole or not at all."""
        weights = path.with_suffix(".safetensors")
        temporary = weights.with_name(f".{weights.name}.{os.getpid()}")
        try:
            write_tensors(temporary, {"observations": self.observations, "table": self.table})
            temporary.replace(weights)
        finally:
            temporary.unlink(missing_ok=True)
        write_json(path.with_suffix(".json"), {"format": FORMAT, "obs_width": self.width, "choices": self.choices})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu", seed: int = 0) -> TablePolicy:
        """Reads what `save` wrote; raises CheckpointError where the two files are damaged or do not fit together."""
        file, weights = path.with_suffix(".json"), path.with_suffix(".safetensors")
        spec = read_json(file)
        got = spec.get("format", "no format")
        if got != FORMAT:
            raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
        tensors = read_tensors(weights, device)
        try:
            policy = cls(tensors["observations"], tensors["table"], seed)
        except (KeyError, ConfigError) as error:
            raise CheckpointError(f"{weights}: expected a table policy, got {error}") from error
        told = {"obs_width": spec.get("obs_width"), "choices": spec.get("choices")}
        if told != {"obs_width": policy.width, "choices": policy.choices}:
            raise CheckpointError(f"{file}: expected the table of {weights.name}, got one of {told}")
        return policy

    def _hash(self, obs: Tensor) -> Tensor:
        """64 bits of observations (..., D): equal ones give equal numbers. Sums and products wrap around."""
        bits = (obs + 0.0).contiguous().view(torch.int32).long()  # + 0.0: there are two zeros
        mixed = bits * self.multipliers
        return (mixed ^ (mixed >> 29)).sum(-1)


@runtime_checkable
class Tells(Protocol):
    """A policy that tells its odds, as `TablePolicy` does."""

    def probabilities(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        """See `TablePolicy.probabilities`."""
        ...


@torch.no_grad()
def tabulate(policy: Plays, tree: Tree, seat: int) -> Tensor:
    """What a policy does at every infoset of a seat: its table (I, C), asked in one batch.

    Args:
        policy: One of `trainers`, or any with a method `probabilities(obs, mask)`.
        tree: The game's.
        seat: Which seat it plays.

    Raises:
        ConfigError: It remembers, or does not tell its odds.
    """
    obs, legal = tree.observations[seat], tree.legal[seat]
    if isinstance(policy, Policy) and isinstance(policy.head, CategoricalHead):
        device = policy.normalizer.mean.device
        if policy.actor.memory_width:
            raise ConfigError("tabulate: expected a policy without memory, got a recurrent one: estimate it by playing")
        params, _ = policy.actor.step(policy.inputs(obs.to(device).unsqueeze(-2)), None)  # a single agent
        odds = policy.head.log_probs(params.squeeze(-2), legal.to(device)).exp().squeeze(-2)
    elif isinstance(policy, Tells):
        odds = policy.probabilities(obs, legal)
    else:
        raise ConfigError(f"tabulate: expected a policy with probabilities(obs, mask), got {type(policy).__name__}")
    odds = odds.cpu().double().masked_fill(~legal, 0.0)
    return odds / odds.sum(-1, keepdim=True)
