"""Assign agents to policies, and act with the learners of these policies."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from gpu_envs.runtime.core import Core, observations_before_autoreset
from gpu_envs.runtime.rollout.kernel_policy import KernelPolicy
from gpu_envs.utils.agent_rows import hide_dead, hides_dead, rows_index
from trainers.algorithms import algorithm_specs
from trainers.algorithms.learner import STORES, CentralInput, Learner
from trainers.algorithms.on_policy.actor_critic_learner import ActorCriticLearner
from trainers.algorithms.on_policy.batched_actor_critics import BatchedActorCritics
from trainers.base.agent_group import AgentGroup, DecisionClock, agent_rows_of, make_agent_group
from trainers.base.learner_spec import AgentSpec, LearnerSpec
from trainers.base.random_streams import derive_seed
from trainers.base.shard import Shard
from trainers.base.transition import Transition
from trainers.buffers.rollout_buffer import RolloutBuffer
from trainers.config.train_config import TrainConfig, members_by_policy
from trainers.models.batched_policies import STACKED
from trainers.models.overrides import changed_module, override_of
from trainers.models.policy import Policy


@dataclass
class PolicyAssignment:
    """The agents that one policy controls, and its learner."""

    members: tuple[str, ...]
    """Names of groups, or of single agents if the agents of a group have different policies."""
    agents: AgentGroup
    """Rows, spaces and masks of the agents."""
    learner: Learner
    """Learner of the policy."""
    critic_state: CriticState
    """Input of the learner's critic."""
    clock: DecisionClock | None = None
    """Clock of decisions; None: the agents decide at every step."""

    def kernel_policy(self) -> KernelPolicy | None:
        """Return the learner's policy for rollouts in kernels, or None if it has none."""
        make_policy = getattr(self.learner, "kernel_policy", None)
        return None if make_policy is None else make_policy()

    def policy(self) -> Policy:
        """Return a frozen copy of the present policy, which knows its clock."""
        policy = self.learner.policy()
        if self.clock is not None:
            policy.spec = {**policy.spec, "decide_every": self.clock.interval}
        return policy


@dataclass
class ActingGroup:
    """Agents of one or several policies that act in one batch."""

    agents: AgentGroup
    """Rows, spaces and masks of the agents."""
    actor: Learner | BatchedActorCritics
    """Learner of one policy, or several learners in one batch."""
    critic_state: CriticState
    """Input of the learners' critics."""
    clock: DecisionClock | None = None
    """Clock of decisions; None: the agents decide at every step."""

    def start(self) -> None:
        """Start a rollout."""
        if isinstance(self.actor, BatchedActorCritics):
            self.actor.start()

    def act(self, core: Core, info: Mapping[str, Tensor], into: Tensor) -> None:
        """Query the learners for actions and write them to the actions of all agents, (E, A[, K])."""
        mask, to_move = self._legal(core, info)
        obs = core.obs[:, self.agents.rows, : self.agents.obs_width]
        if hides_dead(self.actor):
            obs = hide_dead(obs, info["alive"][:, self.agents.rows])
        action = self.actor.act(obs, mask, to_move, self.critic_state.now())
        if self.clock is not None and to_move is not None:
            action = self.clock.hold(action, to_move)
        self.agents.scatter_actions(action, into)

    def observe(self, core: Core, info: Mapping[str, Tensor], action: Tensor, restarted: Tensor, valid: Tensor) -> None:
        """Store the transition of these agents.

        Args:
            core: The environments after the step.
            info: Info of the step.
            action: Actions of all agents, (E, A[, K]).
            restarted: Environments that the step has reset, (E,) bool.
            valid: Agents to learn from, (E, A) bool: alive before the step, and controlled by a learner.
        """
        rows, width = self.agents.rows, self.agents.obs_width
        mask, to_move = self._legal(core, info)
        self.actor.observe(
            Transition(
                reward=core.reward[:, rows],
                terminated=core.terminated[:, rows],
                truncated=core.truncated[:, rows],
                valid=valid[:, rows],
                next_obs=core.obs[:, rows, :width],
                final_obs=core.final_obs[:, rows, :width],
                next_mask=mask,
                next_to_move=to_move,
                restarted=restarted,
                next_state=self.critic_state.now(),
                final_state=self.critic_state.final(),
                joint_action=action if self.critic_state.kind == "joint" else None,
            )
        )

    def _legal(self, core: Core, info: Mapping[str, Tensor]) -> tuple[Tensor | None, Tensor | None]:
        """Return the legal choices of the next step, and who decides on it; None: all are legal, all decide."""
        mask = self.agents.mask(info.get("action_mask"))
        to_move = info["to_move"][:, self.agents.rows] if "to_move" in info else None
        return mask, to_move if self.clock is None else self.clock.decides(core, mask, to_move)


class CriticState:
    """Input of centralized critics: the global state now and at the end of episodes."""

    def __init__(self, core: Core, kind: CentralInput) -> None:
        """Create the input for a kind of critic; the environments keep their final states from now on.

        Args:
            core: The environments.
            kind: Kind of critic, see `trainers.algorithms.learner.Learner.central_input`.
        """
        self.core: Core = core
        self.kind = kind
        self.has_state: bool = kind == "state" and core.definition.global_state_size > 0
        if self.has_state:
            core.keep_final_state()
        self.width = 0 if kind is None else core.state().shape[1]
        if kind == "joint":
            self.width: int = core.num_agents * core.obs_width
        self.columns: Tensor | None = _columns(core) if kind == "state" and not self.has_state else None

    def now(self) -> Tensor | None:
        """Return the global state, or the padded observations of all agents, (E, S)."""
        if self.kind is None:
            return None
        return self.core.state() if self.kind == "state" else self.core.obs.flatten(1)

    def final(self) -> Tensor | None:
        """Return the state before an autoreset, (E, S), valid where agents were truncated; None without such a critic.

        The tensor may be a buffer of the environments.
        """
        if self.kind is None:
            return None
        if self.has_state:
            return self.core.final_state()
        flat = observations_before_autoreset(self.core).flatten(1)
        return flat if self.columns is None else flat[:, self.columns]


def _columns(core: Core) -> Tensor | None:
    """Return the columns of all agents' padded observations that `core.state()` contains; None: all."""
    widths = [core.observation_spaces[name].shape[0] for name in core.possible_agents]
    if set(widths) == {core.obs_width}:
        return None
    columns = [row * core.obs_width + i for row, width in enumerate(widths) for i in range(width)]
    return torch.tensor(columns, device=core.device)


def assign_policies(
    config: TrainConfig,
    core: Core,
    learning: Collection[str] | None = None,
    shard: Shard | None = None,
    num_trainings: int = 1,
    engines: Mapping[str, str] | None = None,
) -> dict[str, PolicyAssignment]:
    """Create the learner of every policy, in the order of the environment's groups.

    Args:
        config: Configuration of the run.
        core: The environments.
        learning: Policies that get a learner; None: all.
        shard: Share of the environments that `core` holds, if several processes train together.
        num_trainings: Number of trainings that share compiled kernels.
        engines: Recorded engines of learners by policy, see `LearnerSpec.recorded_engine`.

    Raises:
        ConfigError: The critics need a learner of every policy, and `learning` leaves some out.
    """
    make = algorithm_specs.find(config.algorithm).learner_type
    if config.engine == "kernel":
        _check_kernels(config, make)
    central_input: CentralInput = getattr(config.learner, "central_input", None) or getattr(make, "central_input", None)
    sides = members_by_policy(config, core)
    _check_names(config, sides, learning)
    critic_state, players = CriticState(core, central_input), _players(core, sides)
    assignments = {}
    for index, (name, members) in enumerate(sides.items()):
        if learning is not None and name not in learning:
            if central_input == "joint":
                raise ConfigError(
                    f"algorithm = {config.algorithm!r}: its critics need a learner of every policy; use ppo"
                )
            continue
        agents, interval = make_agent_group(core, members), config.decide_every.get(name, 1)
        problem = LearnerSpec(
            agents.obs_width,
            agents.space,
            core.num_envs,
            len(agent_rows_of(core, members)),
            config.total_steps,
            core.device,
            seed=derive_seed(config.seed, index),  # independent random streams of the learners
            time_limit=core.definition.truncation_interval,
            state_width=critic_state.width,
            has_action_mask=core.action_mask is not None,
            layout=agents.layout,
            turn_based=core.to_move is not None or interval > 1,
            agents=players,
            policy=name,
            cuda_graph=config.cuda_graph,
            engine="torch" if config.precision != "float32" else config.engine,
            recorded_engine=(engines or {}).get(name, ""),
            num_trainings=num_trainings,
            shard=shard,
        )
        clock = DecisionClock(interval, agents, core) if interval > 1 else None
        learner = make(config.learner, problem)
        getattr(learner, "reason_for_torch", "")  # raises an error if kernels are required and do not support it
        assignments[name] = PolicyAssignment(tuple(members), agents, learner, critic_state, clock)
    if central_input == "joint":
        learners = {name: assignment.learner for name, assignment in assignments.items()}
        for assignment in assignments.values():
            assignment.learner.set_co_learners(learners)
    return assignments


def _check_names(config: TrainConfig, sides: Mapping[str, Sequence[str]], learning: Collection[str] | None) -> None:
    """Raise ConfigError if a setting by policy names an unknown policy, or one that does not learn."""
    for field in ("decide_every", "learn_after"):
        for name in getattr(config, field):
            if name not in (sides if learning is None else learning):
                raise ConfigError(f"{field}: expected names of policies ({', '.join(sides)}), got {name!r:.80}")


def _check_kernels(config: TrainConfig, learner_type: type) -> None:
    """Raise ConfigError if an algorithm or a precision has no kernels."""
    if not hasattr(learner_type, "kernel_policy"):
        raise ConfigError(
            f"engine = 'kernel': expected ppo, a2c, dqn, td3 or sac, got {config.algorithm}; use engine = 'auto'"
        )
    if config.precision != "float32":
        raise ConfigError(f"engine = 'kernel': expected precision 'float32', got {config.precision!r}")


def acting_groups(assignments: Mapping[str, PolicyAssignment], core: Core) -> list[ActingGroup]:
    """Group policies that act in one batch: actor-critics with equal networks and numbers of agents."""
    batches: dict[str, list[tuple[PolicyAssignment, ActorCriticLearner]]] = {}
    groups: list[ActingGroup] = []
    for assignment in assignments.values():
        learner, alone = assignment.learner, assignment.clock is not None
        if isinstance(learner, ActorCriticLearner) and _acts_as_batched(learner) and not alone:
            batches.setdefault(f"{learner.spec} {learner.rollout.reward.shape}", []).append((assignment, learner))
        else:
            groups.append(ActingGroup(assignment.agents, assignment.learner, assignment.critic_state, assignment.clock))
    for batch in batches.values():
        first = batch[0][0]
        if len(batch) == 1:
            groups.append(ActingGroup(first.agents, first.learner, first.critic_state))
            continue
        rows = [row for assignment, _ in batch for row in agent_rows_of(core, assignment.members)]
        agents = dataclasses.replace(first.agents, rows=rows_index(rows, core.device))
        groups.append(ActingGroup(agents, BatchedActorCritics([learner for _, learner in batch]), first.critic_state))
    return groups


def _acts_as_batched(learner: ActorCriticLearner) -> bool:
    """Return whether a batch of actor-critics computes what a learner and its modules do."""
    if learner.spec["network"] not in STACKED:
        return False
    replaced = override_of(learner, ActorCriticLearner, ("act", "observe")) or changed_module(learner)
    return not (replaced or override_of(learner.rollout, RolloutBuffer, STORES))


def _players(core: Core, sides: Mapping[str, Sequence[str]]) -> tuple[AgentSpec, ...]:
    """Return all agents in order, with the policy of each."""
    players = {}
    for name, members in sides.items():
        agents = make_agent_group(core, members)
        for index, row in enumerate(agent_rows_of(core, members)):
            players[row] = AgentSpec(row, name, agents.obs_width, agents.space, index)
    return tuple(players[row] for row in range(core.num_agents))
