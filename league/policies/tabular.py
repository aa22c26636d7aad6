"""A policy given by a table of action probabilities."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.summaries import Summarized, Summary
from trainers.base.serialization import read_json, read_tensors, write_json, write_tensors, wrong_format

FORMAT = "gpu-envs table 1"  # of a table's JSON file


_MULTIPLIERS = 0x51ED270B  # seed of the hash


class TablePolicy(Summarized):
    """Sample actions from a table of probabilities by observation, with its own random stream.

    Legal actions are uniform for observations outside the table. Observations are looked up by a 64-bit hash and then
    compared, without host synchronization.

    On disk it is `<path>.safetensors` and `<path>.json`.
    """

    def __init__(self, observations: Tensor, table: Tensor, seed: int = 0) -> None:
        """Create a policy from unique observations (I, D) and action probabilities (I, C).

        Raises:
            ConfigError: The shapes do not fit together, observations are not unique or not finite, or rows of
                probabilities are not distributions.
        """
        if observations.dim() != 2 or table.dim() != 2 or len(table) != len(observations) or not len(table):
            shapes = f"{tuple(observations.shape)} and {tuple(table.shape)}"
            raise ConfigError(f"table policy: expected observations (I, D) and a table (I, C), got {shapes}")
        if (table < 0).any() or not torch.allclose(table.double().sum(-1), torch.ones_like(table[:, 0]).double()):
            raise ConfigError("table policy: expected probabilities that sum to 1 in every row")
        device = observations.device
        self.width: int = observations.shape[1]
        self.choices: int = table.shape[1]
        generator = torch.Generator().manual_seed(_MULTIPLIERS)
        multipliers = torch.randint(-(2**63), 2**63 - 1, (self.width,), generator=generator) | 1
        self.multipliers: Tensor = multipliers.to(device)
        self.keys: Tensor
        self.keys, order = self._hash(observations.float()).sort()
        self.observations: Tensor = observations.float()[order]
        self.table: Tensor = table.to(device, torch.float64)[order]
        if not observations.isfinite().all() or (self.keys[1:] == self.keys[:-1]).any():
            raise ConfigError("table policy: expected finite and unique observations, got others")
        self.generator: torch.Generator = torch.Generator(device).manual_seed(seed)

    def _summary(self) -> Summary:
        facts = {"observation": f"Box({self.width},)", "action": f"Discrete({self.choices})"}
        return Summary("", {**facts, "observations": len(self.keys), "device": self.keys.device})

    def probabilities(self, obs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return action probabilities (..., C) float64 for observations and masks of `act`."""
        obs = obs[..., : self.width]
        row = torch.searchsorted(self.keys, self._hash(obs)).clamp_(max=len(self.keys) - 1)
        is_listed = (self.observations[row] == obs).all(-1, keepdim=True)
        legal = torch.ones_like(self.table[row]) if mask is None else mask.double()
        odds = torch.where(is_listed, self.table[row] * legal, legal)
        odds = torch.where(odds.sum(-1, keepdim=True) > 0, odds, legal)
        return odds / odds.sum(-1, keepdim=True)

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions (...) int64, see `trainers.models.policy.Policy.act`."""
        odds = self.probabilities(obs, mask)
        if greedy:
            return odds.argmax(-1)
        # exponential race: its minimum is a sample, without the host synchronization of torch.multinomial
        race = torch.empty_like(odds).exponential_(generator=self.generator).clamp_(min=1e-300)
        return (odds / race).argmax(-1)

    def initial_hidden_state(self, *shape: int) -> Tensor | None:
        """Return None: it has no hidden state."""
        return None

    def seed(self, seed: int) -> None:
        """Seed the random stream of actions."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Write `<path>.safetensors` and `<path>.json`."""
        write_tensors(path.with_suffix(".safetensors"), {"observations": self.observations, "table": self.table})
        write_json(path.with_suffix(".json"), {"format": FORMAT, "obs_width": self.width, "choices": self.choices})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu", seed: int = 0) -> TablePolicy:
        """Load a saved policy; raise CheckpointError if the files are damaged or do not fit together."""
        file, weights = path.with_suffix(".json"), path.with_suffix(".safetensors")
        spec = read_json(file)
        actual = spec.get("format", "no format")
        if actual != FORMAT:
            raise wrong_format(file, FORMAT, actual)
        tensors = read_tensors(weights, device)
        try:
            policy = cls(tensors["observations"], tensors["table"], seed)
        except (KeyError, ConfigError) as error:
            raise CheckpointError(f"{weights}: expected a table policy, got {error}") from error
        shape = {"obs_width": spec.get("obs_width"), "choices": spec.get("choices")}
        if shape != {"obs_width": policy.width, "choices": policy.choices}:
            raise CheckpointError(f"{file}: expected the table of {weights.name}, got one of {shape}")
        return policy

    def _hash(self, obs: Tensor) -> Tensor:
        """Return 64-bit hashes of observations (..., D). Sums and products wrap around."""
        bits = (obs + 0.0).contiguous().view(torch.int32).long()  # + 0.0 maps -0.0 to 0.0
        mixed = bits * self.multipliers
        return (mixed ^ (mixed >> 29)).sum(-1)
