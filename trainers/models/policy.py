"""A frozen policy: what evaluation, rendering and the league play with."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.bodies import BodyConfig, Network, actor_width, with_ids
from trainers.files import (
    check_finite,
    check_tensors,
    parse_json,
    read_json,
    read_record,
    read_tensors,
    write_json,
    write_tensors,
)
from trainers.heads import Head, check_action_spec, make_head
from trainers.nets import ObservationNormalizer
from trainers.settings import setting

FORMAT = "gpu-envs policy 2"  # of a policy's JSON file


@dataclass(frozen=True)
class PolicySpec(BodyConfig):
    """What a policy is built from, as its JSON file holds it."""

    obs_width: int = setting(0, ">= 0")
    """D of its observations."""
    ids: int = setting(0, ">= 0")
    """Agents that it tells apart; 0: none."""
    action: dict[str, Any] = field(default_factory=dict)
    """See `trainers.heads.action_spec`."""


class Plays(Protocol):
    """What can play agents: trained, scripted or any other."""

    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions for the environment, see `Policy.act`."""
        ...

    def memory(self, *shape: int) -> Tensor | None:
        """What it remembers before an episode, `(*shape, H)` zeros; None if it remembers nothing."""
        ...

    def seed(self, seed: int) -> None:
        """Restarts the stream that samples are drawn from."""
        ...


class Acts(Protocol):
    """What a policy is made of: learners have it, and policies do."""

    @property
    def spec(self) -> dict[str, Any]:
        """See `Policy`."""
        ...

    @property
    def normalizer(self) -> ObservationNormalizer:
        """Of the observations."""
        ...

    @property
    def actor(self) -> Network:
        """Network."""
        ...

    @property
    def head(self) -> Head:
        """Turns its outputs into actions."""
        ...

    @property
    def generator(self) -> torch.Generator:
        """Of the samples."""
        ...


class Policy:
    """Normaliser, actor and head of a learner at one moment, with a random stream of its own.

    On disk it is `<path>.safetensors` (weights) beside `<path>.json` (the shape of the network).
    """

    def __init__(
        self, spec: dict[str, Any], normalizer: ObservationNormalizer, actor: Network, head: Head, seed: int = 0
    ) -> None:
        """Takes ownership of the modules.

        Args:
            spec: JSON types only: a `BodyConfig.spec`, "action" and, where the policy tells n agents apart, "ids" = n.
            normalizer: Of the observations.
            actor: Network.
            head: Turns its outputs into actions.
            seed: Of the samples.
        """
        self.spec = spec
        self.net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head}).requires_grad_(False)
        self.normalizer, self.actor, self.head = normalizer, actor, head
        self.obs_width: int = spec["obs_width"]
        self.ids: int = spec.get("ids", 0)
        self.generator = torch.Generator(normalizer.mean.device).manual_seed(seed)

    def memory(self, *shape: int) -> Tensor | None:
        """What it remembers before an episode, zeros `(*shape, H)`; None if it remembers nothing."""
        width = self.actor.memory_width
        return torch.zeros((*shape, width), device=self.normalizer.mean.device) if width else None

    def inputs(self, obs: Tensor) -> Tensor:
        """What the network gets of observations, see `act`."""
        return with_ids(self.normalizer(obs[..., : self.obs_width]), self.ids)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, memory: Tensor | None = None
    ) -> Tensor:
        """Actions for the environment.

        Args:
            obs: (..., D), D at least the policy's own width (the rest is padding); (..., n, D) for a policy that tells
                its n agents apart.
            mask: (..., choices) True = legal.
            greedy: Take the most probable action instead of a sample.
            memory: (..., H) of `memory`, for a policy that remembers: read and then overwritten. The caller sets it to
                zero where an episode begins.

        Returns:
            (...) int64, (..., K) int64 or (..., K) float32, by the kind of the action space.

        Raises:
            ConfigError: It remembers, and no memory was given.
        """
        if self.actor.memory_width and memory is None:
            raise ConfigError("this policy remembers: expected act(..., memory=policy.memory(E, n)), got no memory")
        params, remembered = self.actor.step(self.inputs(obs), memory)
        if memory is not None and remembered is not None:
            memory.copy_(remembered)
        action = self.head.mode(params, mask) if greedy else self.head.sample(params, self.generator, mask)[0]
        return self.head.to_env(action)

    def seed(self, seed: int) -> None:
        """Restarts the stream that samples are drawn from."""
        self.generator.manual_seed(seed)

    def save(self, path: Path) -> None:
        """Writes `<path>.safetensors` and `<path>.json`."""
        write_tensors(path.with_suffix(".safetensors"), dict(self.net.state_dict()))
        write_json(path.with_suffix(".json"), {"format": FORMAT, **self.spec})

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """Reads what `save` wrote; raises CheckpointError where the two files are damaged or do not fit together."""
        file = path.with_suffix(".json")
        spec = read_json(file, finite=False)  # a box may have no bounds
        got = spec.pop("format", "no format")
        if got != FORMAT:
            raise CheckpointError(f"{file}: expected format {FORMAT!r}, got {got!r}")
        weights = path.with_suffix(".safetensors")
        return cls._of(spec, read_tensors(weights), str(file), str(weights), device, seed)

    def state_dict(self) -> dict[str, Tensor | str]:
        """Weights and, as JSON, the shape of the network: what `from_state` takes."""
        return {
            **{f"net.{name}": tensor for name, tensor in self.net.state_dict().items()},
            "spec": json.dumps(self.spec),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], device: torch.device | str = "cpu", seed: int = 0) -> Policy:
        """The policy that gave `state_dict`; CheckpointError where that is damaged."""
        given = {name.removeprefix("net."): value for name, value in state.items() if name.startswith("net.")}
        if not isinstance(spec := state.get("spec"), str):
            raise CheckpointError(f"policy: expected its shape as JSON in a field 'spec', got {spec!r:.80}")
        return cls._of(parse_json(spec, "policy", finite=False), given, "policy", "policy", device, seed)

    @classmethod
    def _of(
        cls,
        spec: dict[str, Any],
        weights: Mapping[str, Any],
        shape_from: str,
        weights_from: str,
        device: torch.device | str,
        seed: int,
    ) -> Policy:
        read = read_record(PolicySpec, shape_from, spec, optional=("ids",))
        check_action_spec(f"{shape_from}: action", spec["action"])
        if len(read.hidden) + len(read.filters) > len(weights):
            raise CheckpointError(
                f"{shape_from}: expected at most the {len(weights)} layers of {weights_from}, got more"
            )
        head = make_head(spec["action"])
        try:
            with torch.device("meta"):  # sizes are compared with those of the weights before memory is taken
                normalizer = ObservationNormalizer(read.obs_width)
                actor = Network(actor_width(spec), head.num_params, 0.01)
        except ConfigError as error:
            raise CheckpointError(f"{shape_from}: {error}") from error
        except (RuntimeError, TypeError) as error:  # torch's words for sizes whose product 64 bits cannot hold
            raise CheckpointError(f"{shape_from}: expected sizes as in {weights_from}, got larger ones") from error
        net = nn.ModuleDict({"normalizer": normalizer, "actor": actor, "head": head})
        given = check_tensors(weights_from, weights, net.state_dict())
        check_finite(weights_from, given)
        for part in (normalizer, actor):
            part.to_empty(device="cpu")
        policy = cls(spec, normalizer, actor, head, seed)
        policy.net.load_state_dict(given)
        policy.net.to(device)
        policy.generator = torch.Generator(device).manual_seed(seed)
        return policy


def snapshot(learner: Acts) -> Policy:
    """A copy of what a learner has learned so far."""
    normalizer, actor, head = copy.deepcopy((learner.normalizer, learner.actor, learner.head))
    return Policy(learner.spec, normalizer, actor, head, seed=learner.generator.initial_seed())
