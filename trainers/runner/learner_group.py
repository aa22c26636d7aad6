"""The learners of a run: construction, updates, and the check that all numbers stay finite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core
from trainers.algorithms.learner import SkipsUpdates, UpdatesInSequence
from trainers.algorithms.on_policy.kernel_engine import KernelEngine
from trainers.base.agent_group import agent_rows_of
from trainers.base.gradients import LOCAL_REDUCER, GradientReducer
from trainers.base.learner_spec import ENGINE_PARTS, EnginePart
from trainers.base.random_streams import derive_seed
from trainers.base.serialization import check_tensors
from trainers.base.shard import Shard
from trainers.base.state import State, restore_generator, select_prefix
from trainers.config.train_config import TrainConfig, anneal_parameters, autocast
from trainers.distributed.sharded_reducer import reducer_for
from trainers.models.policy import Policy
from trainers.runner.agent_assignment import PolicyAssignment, assign_policies
from trainers.runner.early_stopping import check_finite_training, largest_magnitude
from trainers.runner.kernel_rollout import reason_for_steps

ENV_AXES = {"hidden_state": 0, "pending": 0, "carried": 0, "decisions": 0, "replay": 1}
"""Axis of the environments in the per-environment entries of a learner's state, by the first part of their names."""

STARTS = (".episode_starts", ".advances")
"""Ends of the names of entries that are True where an episode starts."""
ORDER_STREAM = 1006
"""Index of the random stream of the order of updates, see `derive_seed`; the first ones are of learners."""
ORDER = "learners.order"
"""Entry of the state with that stream."""


class LearnerGroup:
    """The learners of a run, one per policy, and the agents that each policy controls."""

    reducer: GradientReducer = LOCAL_REDUCER
    """Computes and applies the gradients of all learners, see `trainers.algorithms.learner.Learner.reducer`."""

    def __init__(
        self,
        config: TrainConfig,
        core: Core,
        policies: Collection[str] | None = None,
        shard: Shard | None = None,
        num_trainings: int = 1,
        engines: Mapping[str, str] | None = None,
    ) -> None:
        """Create the learners.

        Args:
            config: Configuration of the run.
            core: The environments that the learners act in.
            policies: Policies that get a learner; None: all policies of `config`.
            shard: Share of the environments that `core` holds, if several processes train together.
            num_trainings: Number of trainings that share compiled kernels.
            engines: Recorded engines of learners by policy, see `LearnerSpec.recorded_engine`.

        Raises:
            ConfigError: The algorithm does not fit the environment, or needs a learner for every policy.
        """
        self.config: TrainConfig = config
        self.resumes_episodes: bool = core.resumes_episodes
        anneal_parameters(core, config.anneal, sys.maxsize)  # the environment must accept the last values, too
        anneal_parameters(core, config.anneal, 0)  # before the first reset
        self.core: Core = core
        self.device: torch.device = core.device
        self.assignments: dict[str, PolicyAssignment] = assign_policies(
            config, core, policies, shard, num_trainings, engines
        )
        for name in config.learn_after:
            if not isinstance(self.assignments[name].learner, SkipsUpdates):
                raise ConfigError(f"learn_after: expected an on-policy algorithm, got {config.algorithm!r}; use ppo")
        self.order: torch.Generator | None = None
        """Random stream of the order of updates, equal on all ranks; None: the order of `assignments`."""
        if any(isinstance(assignment.learner, UpdatesInSequence) for assignment in self.assignments.values()):
            self.order = torch.Generator().manual_seed(derive_seed(config.seed, ORDER_STREAM))
        if shard is not None:
            self.set_reducer(reducer_for(shard))
        if self.device.type == "cuda":
            pool = torch.cuda.graph_pool_handle()
            for assignment in self.assignments.values():
                assignment.learner.updates.pool = pool  # updates run one after another

    @property
    def use_kernels(self) -> bool:
        """Whether a learner takes its gradient steps in kernels."""
        engines = (getattr(assignment.learner, "engine", None) for assignment in self.assignments.values())
        return any(isinstance(engine, KernelEngine) for engine in engines)

    @property
    def reason_for_steps(self) -> str:
        """Why rollouts are played step by step although kernels support a policy, or an empty string."""
        actors = self.config.actor_device
        if actors is not None and torch.device(actors).type != self.device.type:
            return f"actors on {actors}"
        return reason_for_steps(self.core, self.assignments)

    @property
    def engines(self) -> dict[str, str]:
        """Engine of every learner by policy, see `ENGINE_PARTS`."""
        plays_in_kernels = not self.reason_for_steps
        names = {parts: name for name, parts in ENGINE_PARTS.items()}
        engines = {}
        for name, assignment in self.assignments.items():
            has_gradients = isinstance(getattr(assignment.learner, "engine", None), KernelEngine)
            in_kernels: dict[EnginePart, bool] = {"rollouts": plays_in_kernels, "gradients": has_gradients}
            kernel_parts: tuple[EnginePart, ...] = tuple(part for part in in_kernels if in_kernels[part])
            engines[name] = names[kernel_parts]
        return engines

    @property
    def reasons_for_torch(self) -> dict[str, str]:
        """Reasons by policy why PyTorch computes rollouts, gradients or both; "" for kernels."""
        if self.config.precision != "float32":
            return dict.fromkeys(self.assignments, f"precision {self.config.precision}")
        none, steps = f"no kernels for {self.config.algorithm}", self.reason_for_steps
        reasons = {name: getattr(a.learner, "reason_for_torch", none) for name, a in self.assignments.items()}
        acts = {name: a.kernel_policy() is not None for name, a in self.assignments.items()}
        return {name: steps if steps and acts[name] else reason for name, reason in reasons.items()}

    def set_reducer(self, reducer: GradientReducer) -> None:
        """Set the gradient reducer of all learners."""
        self.reducer = reducer
        for assignment in self.assignments.values():
            assignment.learner.reducer = reducer

    def update(self, iteration: int, last_saved: Callable[[], str]) -> dict[str, float]:
        """Update every learner from the collected rollout and return the metrics.

        The metrics are read from the device in one host synchronization.

        Args:
            iteration: Number of the update, for error messages.
            last_saved: Returns a description of the last saved state, for error messages.

        Returns:
            Metrics by "policy/metric", averaged over all ranks.

        Raises:
            RolloutOverflowError: A rollout had more truncations than its buffer of final observations holds.
            ConfigError: A critic of states needs the state in which an episode was cut.
            DivergedError: Metrics or networks are not finite, see `check_finite_training`.
        """
        with autocast(self.config):
            metrics = self._update_learners((iteration - 1) * self.config.rollout_steps)
        rollouts = [assignment.learner.rollout for assignment in self.assignments.values()]
        nets = {name: assignment.learner.net for name, assignment in self.assignments.items()}
        magnitudes = [largest_magnitude(net).to(self.device) for net in nets.values()]
        means = self.reducer.mean(torch.stack([*magnitudes, *(value.float() for value in metrics.values())]))
        excess = torch.stack([rollout.excess() for rollout in rollouts])
        *values, is_wrong = torch.cat([means, excess.any(0, keepdim=True)]).tolist()
        if is_wrong:  # captured updates do not check their rollout
            for rollout in rollouts:
                rollout.check_earlier()
        row = dict(zip(metrics, values[len(nets) :], strict=True))
        check_finite_training(iteration, row, nets, values[: len(nets)], last_saved)
        return row

    def _update_learners(self, steps: int) -> dict[str, Tensor]:
        """Update the learners after a number of environment steps; those in sequence in a random order.

        The ratios of a policy are factors for the later policies of its team, whose agents have the same roles.

        Returns:
            Metrics by "policy/metric", scalars on the device, in the order of `assignments`.
        """
        names, factors = list(self.assignments), dict[frozenset[str], Tensor]()
        results: dict[str, dict[str, Tensor]] = {name: {} for name in names}
        if self.order is not None:
            names = [names[i] for i in torch.randperm(len(names), generator=self.order).tolist()]
        for name in names:
            learner = self.assignments[name].learner
            if steps < self.config.learn_after.get(name, 0) and isinstance(learner, SkipsUpdates):
                learner.skip_update()
            elif isinstance(learner, UpdatesInSequence):
                team = self._roles_of(name)
                factor = factors.get(team, torch.ones((), device=self.device))
                learner.factor.copy_(factor)
                results[name] = learner.update()
                factors[team] = factor * learner.ratio
            else:
                results[name] = learner.update()
        return {f"{name}/{key}": value for name, result in results.items() for key, value in result.items()}

    def _roles_of(self, name: str) -> frozenset[str]:
        """Return the roles that a policy plays; none if all agents cooperate."""
        rows = set(agent_rows_of(self.core, self.assignments[name].members))
        roles = self.core.definition.roles
        return frozenset(
            role for role, members in roles.items() if rows.intersection(agent_rows_of(self.core, members))
        )

    def policies(self) -> dict[str, Policy]:
        """Return frozen copies of the current policies by name."""
        return {name: assignment.policy() for name, assignment in self.assignments.items()}

    @property
    def env_axes(self) -> dict[str, int]:
        """Axis of the environments in entries of `state_dict`, by the prefix of their names."""
        return {f"learner.{name}.{kind}.": axis for name in self.assignments for kind, axis in ENV_AXES.items()}

    def state_dict(self) -> State:
        """Return the state of all learners."""
        state: State = {} if self.order is None else {ORDER: self.order.get_state()}
        for name, assignment in self.assignments.items():
            state |= {f"learner.{name}.{key}": value for key, value in assignment.learner.state_dict().items()}
            if assignment.clock is not None:
                state[f"learner.{name}.decisions.held"] = assignment.clock.held
        return state

    def load_state_dict(self, state: State) -> None:
        """Restore what `state_dict` returned; other entries are ignored.

        Hidden states start anew where the environments start new episodes.

        Raises:
            CheckpointError: The state does not fit the learners.
        """
        if not self.resumes_episodes:
            state = {
                name: torch.ones_like(value)
                if isinstance(value, Tensor) and name.endswith(STARTS) and ".replay." not in name
                else value
                for name, value in state.items()
            }
        if self.order is not None:
            restore_generator(ORDER, self.order, state.get(ORDER))
        for name, assignment in self.assignments.items():
            tensors = select_prefix(state, f"learner.{name}.")
            assignment.learner.load_state_dict(tensors)
            if assignment.clock is not None:
                decisions, action = select_prefix(tensors, "decisions."), assignment.clock.held
                action.copy_(check_tensors(f"learner.{name}.decisions", decisions, {"held": action})["held"])
