"""Pipeline PSRO: several responses of a role train simultaneously, each to the meta-strategy of the levels below.

Source: McAleer et al. 2020, "Pipeline PSRO: A Scalable Approach for Finding Approximate Nash Equilibria in Large Games"
(P2SRO). The lowest level responds to the fixed policies, as in PSRO, and so keeps its guarantee. When it is finished,
it becomes fixed, and the levels above it move down and keep what they have learned. In the paper every level has its
own worker; here they train in segments, in parallel if the executor has enough workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gpu_envs.errors import ConfigError
from league.evaluation.payoff_filler import PayoffSamplingConfig, payoff_task
from league.executors.tasks import LazyValue, RemoteTask
from league.game import Game
from league.matchups.best_response import BestResponseTraining
from league.matchups.data_parallel import joined_shard
from league.matchups.episode_tally import EpisodeTally
from league.matchups.matchup_distribution import MatchupDistribution
from league.matchups.matchups import MatchupResults
from league.matchups.payoff_table import PayoffTable
from league.policies.team import TeamPolicy, policy_from_state
from league.psro.config import PSROConfig
from league.psro.variants.standard import StandardVariant
from league.psro.work import ComputedUpdate, NewPolicy, PSROContext, StoreUpdate, Work
from league.storage.run_config import sizes, table_of
from league.storage.run_store import derive_named_seed
from trainers.base.state import State, to_device
from trainers.config.train_config import TrainConfig
from trainers.models.policy import Policy, PolicyProtocol

PLAN = {"lowest": list[str], "met": list[list[list[float]]]}
"""Fields of a plan's result, and their types: the roles whose lowest level trains, and by level the marginals of its
opponents by seat."""


class PipelineVariant(StandardVariant):
    """Pipeline PSRO: learners train for each of the next `pipeline_depth` places of every population.

    In an iteration the lowest learner of each role trains for `num_segments` segments, or until a plateau, and becomes
    fixed. A response that started at the top has trained for `train.total_steps` steps by then.
    """

    def __init__(self, game: Game, config: PSROConfig) -> None:
        """Create the variant; raise ConfigError if responses are exact, since these need no training."""
        super().__init__(game, config)
        if config.has_exact_responses:
            raise ConfigError(
                f"variant='pipeline': expected oracle='learned', got {config.oracle!r}; exact responses need no "
                "training, use variant='standard'"
            )
        self.depth: int = config.pipeline_depth

    def advance(self, context: PSROContext) -> Iterator[Sequence[Work] | None]:
        """Yield the segments of all levels in turn; then the update that fixes the lowest level of every role."""
        segment, places = 0, {role: self._lowest_index(context, role) for role in self.game.roles}
        while True:
            step = _plan_step(context.iteration, segment)
            if not context.store.done(step):
                yield [self._plan(context, segment)]
            plan = context.store.result(step, PLAN)
            if not plan["lowest"]:
                break
            yield [
                self._segment(context, segment, role, places[role] + level, plan["met"][level])
                for role in self.game.roles
                for level in range(self.depth)
                if level or role in plan["lowest"]
            ]
            segment += 1
        yield [self._fixed(context, task.name, task.role, places[task.role]) for task in self.tasks(context)]

    def _lowest_index(self, context: PSROContext, role: str) -> int:
        """Return the index of the lowest level of a role in its population."""
        return len(context.opponents.marginals[self.game.seats_of(role)[0]])

    def _fixed(self, context: PSROContext, step: str, role: str, index: int) -> StoreUpdate:
        """Return the update that adds the policy of the lowest level to its population."""
        if context.store.done(step):
            return StoreUpdate(step, plan_payoffs=True)
        policy = self._policy(context, policy_state(role, index))
        assert policy is not None
        outdated = dict.fromkeys(name(role, index) for name in (learner_state, policy_state, opponent_state))
        return StoreUpdate(step, [NewPolicy(role, policy)], outdated, plan_payoffs=True)

    # ---------------------------------------------------------------- plans

    def _plan(self, context: PSROContext, segment: int) -> StoreUpdate | ComputedUpdate:
        """Return the plan of a segment, or the simulation of the payoff cells from which it follows.

        In the first segment the higher levels may have no policies yet; then all levels have the same opponents.
        """
        lowest = [role for role in self.game.roles if not self._is_finished(context, segment, role)]
        if not lowest:
            return self._plan_update(context, segment, lowest, [])
        pools, fixed = self._pools(context, policy_state), sizes(context.store)
        lengths = {role: min(len(pool), fixed[role] + self.depth - 1) for role, pool in pools.items()}
        if segment == 0 and any(lengths[role] < size + self.depth - 1 for role, size in fixed.items()):
            return self._plan_update(context, segment, lowest, [context.opponents.marginals] * self.depth)
        config, table = self.config, table_of(context.store)
        table.grow(lengths)
        matchups, episodes = table.missing(config.episodes_per_matchup)
        if not len(matchups):
            return self._plan_update(context, segment, lowest, self._opponents(context, table))

        def update(results: MatchupResults) -> StoreUpdate:
            table.add(matchups, results)
            return self._plan_update(context, segment, lowest, self._opponents(context, table))

        sampling = PayoffSamplingConfig(
            config.episodes_per_matchup, config.ci_half_width, config.device, config.eval_num_envs
        )
        key = f"{context.iteration}/meet/{segment}"  # the seed of the episodes follows from it
        return ComputedUpdate(payoff_task(key, self.game, pools, matchups, episodes, config.seed, sampling), update)

    def _plan_update(
        self, context: PSROContext, segment: int, lowest: list[str], opponents: list[tuple[Tensor, ...]]
    ) -> StoreUpdate:
        """Return the plan of a segment; the current policies of all levels become its opponents.

        Args:
            context: Context of the iteration.
            segment: Number of the segment.
            lowest: Roles whose lowest level trains.
            opponents: Marginals of the opponents by level.
        """
        states: dict[str, State] = {}
        for role, population in context.populations.items():
            for index in range(len(population), len(population) + self.depth):
                if (state := context.store.state(policy_state(role, index))) is not None:
                    states[opponent_state(role, index)] = state
        result = {"lowest": lowest, "met": [[marginal.tolist() for marginal in marginals] for marginals in opponents]}
        return StoreUpdate(_plan_step(context.iteration, segment), states=states, result=result)

    def _is_finished(self, context: PSROContext, segment: int, role: str) -> bool:
        """Return whether the lowest level of a role is finished."""
        number, tolerance = context.iteration, self.config.plateau_tolerance
        if segment >= self.config.num_segments:
            return True
        if tolerance is None or segment < 2:
            return False
        if role not in context.store.result(_plan_step(number, segment - 1), PLAN)["lowest"]:
            return True
        index = self._lowest_index(context, role)
        steps = [_segment_step(number, part, role, index) for part in (segment - 2, segment - 1)]
        earlier, later = (context.store.result(step, {"return": float})["return"] for step in steps)
        return later - earlier <= tolerance

    def _opponents(self, context: PSROContext, table: PayoffTable) -> list[tuple[Tensor, ...]]:
        """Return by level the marginals (N_s + level,) of the policies below."""
        meta_game, opponents = table.meta_game(), [context.opponents.marginals]
        for level in range(1, self.depth):
            below = tuple(slice(len(marginal) + level) for marginal in context.opponents.marginals)
            opponents.append(context.solve(meta_game[:, *below]).marginals)
        return opponents

    # ---------------------------------------------------------------- segments

    def _segment(
        self, context: PSROContext, segment: int, role: str, index: int, opponents: list[list[float]]
    ) -> ComputedUpdate:
        """Return a segment of the training for a place, against the levels below as they were at its start."""
        step = _segment_step(context.iteration, segment, role, index)
        fixed = torch.tensor([len(context.populations[seat.role]) for seat in self.game.seats])

        def update(learned: PipelineSegment) -> StoreUpdate:
            return self.segment_update(step, role, index, learned, fixed)

        marginals = [torch.tensor(marginal, dtype=torch.float64) for marginal in opponents]
        policies = {} if context.store.done(step) else self._pools(context, opponent_state, index)
        return ComputedUpdate(self.segment_task(context, step, role, index, marginals, policies), update)

    def segment_task(
        self,
        context: PSROContext,
        step: str,
        role: str,
        index: int,
        marginals: Sequence[Tensor],
        policies: Mapping[str, Sequence[PolicyProtocol]],
    ) -> RemoteTask:
        """Return the task of a segment of a level.

        Args:
            context: Context of the iteration.
            step: Name of the step.
            role: Role of the level.
            index: Index of the level in its population.
            marginals: Distribution of the opponents of every seat (N_s,).
            policies: Policies by role.
        """
        assert context.train is not None
        train = dataclasses.replace(context.train, seed=derive_named_seed(self.config.seed, "pipeline", role, index))
        arguments = {
            "game": self.game,
            "role": role,
            "draw": MatchupDistribution.against(self.game, role, marginals),
            "train": train,
            "state": LazyValue(lambda: context.store.state(learner_state(role, index))),
            "iterations": -(-train.iterations // (self.depth * self.config.num_segments)),
        }
        return RemoteTask(step, train_segment, policies, arguments, True, self.config.device, train.num_envs)

    def segment_update(
        self, step: str, role: str, index: int, learned: PipelineSegment, fixed: Tensor, **result: Any
    ) -> StoreUpdate:
        """Return the update that stores the segment of a level.

        Args:
            step: Name of the step.
            role: Role of the level.
            index: Index of the level in its population.
            learned: Result of the training.
            fixed: Numbers of fixed policies by seat (S,).
            **result: Further results of the step.
        """
        states: dict[str, Mapping[str, Any]] = {
            learner_state(role, index): learned.state,
            policy_state(role, index): learned.policy.state_dict(),
        }
        tally, mean_return = learned.tally, learned.tally.mean_return()
        among_fixed = (tally.matchups < fixed).all(1)  # the higher levels have no index yet
        matches = role, tally.matchups[among_fixed], tally.count[among_fixed]
        result |= {"steps": learned.steps, "episodes": int(tally.count.sum()), "return": mean_return}
        message = f"{role}-{index}: return {mean_return:.3f}"
        return StoreUpdate(step, (), states, matches, result, steps=learned.steps, message=message)

    def _pools(
        self, context: PSROContext, name: Callable[[str, int], str], limit: int | None = None
    ) -> dict[str, list[PolicyProtocol]]:
        """Return by role the fixed policies, then the levels' policies from states of these names; at most `limit`."""
        pools: dict[str, list[PolicyProtocol]] = {}
        for role, population in context.populations.items():
            pools[role] = list(population[:])
            while (policy := self._policy(context, name(role, len(pools[role])))) is not None:
                pools[role].append(policy)
            pools[role] = pools[role][:limit]
        return pools

    def _policy(self, context: PSROContext, name: str) -> Policy | TeamPolicy | None:
        """Return the policy of a state, or None if there is no such state."""
        state = context.store.state(name)
        return None if state is None else policy_from_state(state, context.home_device)


@dataclass(frozen=True)
class PipelineSegment:
    """The result of a segment of a training."""

    policy: Policy | TeamPolicy
    """Policy at the end of the segment."""
    state: State
    """State of the training."""
    tally: EpisodeTally
    """Episodes of the segment and their returns by matchup."""
    steps: int
    """Environment steps of all segments so far."""


def train_segment(
    policies: Mapping[str, Sequence[PolicyProtocol]],
    *,
    game: Game,
    role: str,
    draw: MatchupDistribution,
    train: TrainConfig,
    state: LazyValue | State | None,
    iterations: int,
    sharded: bool = False,
) -> PipelineSegment:
    """Start or continue a training for a number of iterations, with other processes if `sharded` (`joined_shard`).

    The training is rebuilt for every segment, so that a resumed run equals an uninterrupted one.
    """
    train.prepare()
    with train.in_force():
        training = BestResponseTraining(game, draw, policies, train, shard=joined_shard(train, sharded))
        if (stored := state() if isinstance(state, LazyValue) else state) is not None:
            training.load_state_dict(to_device(stored, train.device))
            training.opponents.replace(draw)
        for _ in range(iterations):
            training.iterate()
        return PipelineSegment(training.learner(role).policy(), training.state_dict(), training.tally(), training.steps)


# Stored runs have these names of steps and states.
def _plan_step(iteration: int, segment: int) -> str:
    return f"{iteration}/plan/{segment}"


def _segment_step(iteration: int, segment: int, role: str, index: int) -> str:
    return f"{iteration}/part/{segment}/{role}/{index}"


def learner_state(role: str, index: int) -> str:
    """Return the name of the state of a level's training."""
    return f"pipeline.{role}.{index}"


def policy_state(role: str, index: int) -> str:
    """Return the name of the state of a level's current policy."""
    return f"pipeline.{role}.{index}.policy"


def opponent_state(role: str, index: int) -> str:
    """Return the name of the state of a level's policy as an opponent, from the start of the segment."""
    return f"pipeline.{role}.{index}.met"
