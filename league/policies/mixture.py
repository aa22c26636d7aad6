"""A policy that samples one of several policies at the start of every episode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from gpu_envs.errors import CheckpointError, ConfigError
from gpu_envs.utils.agent_rows import hides_dead
from gpu_envs.utils.summaries import Summarized, Summary
from league.policies.kinds import KINDS, SupportsSave, kind_of
from league.policies.random import _Samples
from trainers.base.prefix_sum import cumulative_weights
from trainers.base.serialization import check_fields, read_json, write_json, wrong_format
from trainers.models.policy import PolicyProtocol, fit_inputs

MIXTURE = "gpu-envs mixture 1"  # of a mixture's JSON file


class MixturePolicy(Summarized):
    """Play one member for a whole episode, sampled at its start: a mixed strategy, not a behavior strategy.

    The first entry of the hidden state is 1 + the index of the member, or 0 before it is sampled; the member's hidden
    state follows. All agents of a seat have the same member. On disk every member has its own files in addition to
    `<path>.json`.
    """

    def __init__(self, members: Sequence[PolicyProtocol], weights: Tensor | None = None, seed: int = 0) -> None:
        """Own the members, all on one device, with sampling weights (K,); None: uniform."""
        if not members or any(isinstance(member, MixturePolicy) for member in members):
            raise ConfigError("mixture: expected at least one policy, none of them a mixture")
        values = torch.ones(len(members)) if weights is None else torch.as_tensor(weights)
        if values.shape != (len(members),) or not bool(
            (values >= 0).all() & values.isfinite().all() & (values.sum() > 0)
        ):
            raise ConfigError(f"mixture: expected {len(members)} finite weights >= 0, some above 0, got {values!r:.80}")
        self.members: list[PolicyProtocol] = list(members)
        self.hides_dead: bool = hides_dead(*members)
        blank = [member.initial_hidden_state(1) for member in members]
        self.width: int = max((state.shape[-1] for state in blank if state is not None), default=0)
        streams = [member for member in members if isinstance(member, _Samples)]
        self.device: torch.device = streams[0].generator.device if streams else torch.device("cpu")
        self.weights: Tensor = (values.double() / values.double().sum()).to(self.device)
        self.generator: torch.Generator = torch.Generator(self.device).manual_seed(seed)
        for member in streams:  # one stream for all, saved with a training and registered with CUDA graphs
            member.generator = self.generator

    def _summary(self) -> Summary:
        weights = self.weights.tolist()
        order = sorted(range(len(weights)), key=lambda index: -weights[index])
        rows = [(f"member {index}", f"{weights[index]:.3g}", repr(self.members[index])) for index in order]
        return Summary("", {"members": len(weights), "device": self.device}, ("", "weight", "policy"), rows)

    @torch.no_grad()
    def act(
        self, obs: Tensor, mask: Tensor | None = None, greedy: bool = False, hidden_state: Tensor | None = None
    ) -> Tensor:
        """Return actions of the sampled members, see `Policy.act`; members are sampled even if `greedy`.

        Raises:
            ConfigError: `hidden_state` is None.
        """
        if hidden_state is None:
            expected = "act(..., hidden_state=mixture.initial_hidden_state(E, n))"
            raise ConfigError(f"mixture: expected {expected}, got no hidden state")
        shape = obs.shape[:-1] if obs.dim() < 3 else (*obs.shape[:-2], 1)  # one for all agents of a seat
        dice = torch.rand(shape, generator=self.generator, dtype=torch.float64, device=self.device)
        drawn = torch.searchsorted(cumulative_weights(self.weights), dice, right=True).clamp_(max=len(self.members) - 1)
        choice = torch.where(hidden_state[..., 0] == 0, drawn + 1.0, hidden_state[..., 0].double())
        hidden_state[..., 0] = choice.to(hidden_state.dtype)
        action: Tensor | None = None
        for index, member in enumerate(self.members):
            member_state = member.initial_hidden_state(*obs.shape[:-1])
            width = 0 if member_state is None else member_state.shape[-1]
            member_state = None if member_state is None else hidden_state[..., 1 : 1 + width].clone()
            member_action = member.act(*fit_inputs(member, obs, mask), greedy, member_state)
            plays = choice == index + 1
            action = (
                member_action if action is None else torch.where(_fitted(plays, member_action), member_action, action)
            )
            if member_state is not None:
                hidden_state[..., 1 : 1 + width] = torch.where(
                    plays.unsqueeze(-1), member_state, hidden_state[..., 1 : 1 + width]
                )
        assert action is not None
        return action

    def initial_hidden_state(self, *shape: int) -> Tensor:
        """Return an initial hidden state: zeros `(*shape, H)`."""
        return torch.zeros((*shape, 1 + self.width), device=self.device)

    def seed(self, seed: int) -> None:
        """Seed the random stream of members and their actions."""
        self.generator.manual_seed(seed)
        for member in self.members:
            if not isinstance(member, _Samples):
                member.seed(seed)

    def save(self, path: Path) -> None:
        """Write `<path>.json` and the files `<path>.PLACE.*` of each member.

        Raises:
            ConfigError: A member cannot be saved.
        """
        kinds: list[str] = []
        for index, member in enumerate(self.members):
            if not isinstance(member, SupportsSave):
                raise ConfigError(f"mixture: {type(member).__name__} cannot be saved")
            kinds.append(kind_of(member))
            member.save(member_path(path, index))
        spec = {"format": MIXTURE, "kinds": kinds, "weights": self.weights.tolist()}
        write_json(path.with_suffix(".json"), spec)

    @classmethod
    def load(cls, path: Path, device: torch.device | str = "cpu") -> MixturePolicy:
        """Load a saved mixture; raise CheckpointError if a file is invalid."""
        file = path.with_suffix(".json")
        spec = read_json(file)
        if (actual := spec.get("format")) != MIXTURE:
            raise wrong_format(file, MIXTURE, actual)
        check_fields(str(file), spec, {"format": str, "kinds": list[str], "weights": list[float]})
        kinds = [name for name in KINDS if name != "mixture"]
        if bad := [kind for kind in spec["kinds"] if kind not in kinds]:
            raise CheckpointError(f"{file}: kinds: expected some of {', '.join(kinds)}, got {bad[0]!r:.80}")
        members = [KINDS[kind](member_path(path, index), device) for index, kind in enumerate(spec["kinds"])]
        try:
            return cls(members, torch.tensor([float(weight) for weight in spec["weights"]], dtype=torch.float64))
        except ConfigError as error:
            raise CheckpointError(f"{file}: {error}") from error


def member_path(path: Path, index: int) -> Path:
    """Return the path of a member, whose suffix its files replace."""
    return path.with_name(f"{path.name}.{index}.member")


def _fitted(flags: Tensor, action: Tensor) -> Tensor:
    """Return flags with an axis for the components of an action, if it has several."""
    return flags if flags.dim() == action.dim() else flags.unsqueeze(-1)
