"""A frozen policy: what evaluation, rendering and the league play with."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from gpu_envs.errors import CheckpointError, ConfigError
from trainers.bodies import Network, actor_width, with_ids
from trainers.files import check_tensors, read_json, read_tensors, write_json, write_tensors
from trainers.heads import Head, make_head
from trainers.nets import ObservationNormalizer

FORMAT = "gpu-envs policy 2"  # of a policy's JSON file


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
        spec = read_json(file)
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
        try:
            spec = json.loads(state["spec"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"policy: expected its shape as JSON, got a bad or missing spec {error}") from error
        return cls._of(spec, given, "policy", "policy", device, seed)

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
        try:
            head = make_head(spec["action"])
            normalizer = ObservationNormalizer(spec["obs_width"])
            actor = Network(actor_width(spec), head.num_params, 0.01, torch.Generator())
        except (KeyError, TypeError) as error:
            raise CheckpointError(
                f"{shape_from}: expected a policy's shape, got a bad or missing field {error}"
            ) from error
        policy = cls(spec, normalizer, actor, head, seed)
        policy.net.load_state_dict(check_tensors(weights_from, weights, policy.net.state_dict()))
        policy.net.to(device)
        policy.generator = torch.Generator(device).manual_seed(seed)
        return policy


def snapshot(learner: Acts) -> Policy:
    """A copy of what a learner has learned so far."""
    normalizer, actor, head = copy.deepcopy((learner.normalizer, learner.actor, learner.head))
    return Policy(learner.spec, normalizer, actor, head, seed=learner.generator.initial_seed())
