"""Opponents of a training as kernels know them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from gpu_envs.runtime.core import Core
from gpu_envs.runtime.rollout.policy_rollout import MatchupDraw
from league.game import Game
from league.policies.mixture import MixturePolicy
from league.policies.team import part_policy
from league.rollout.kernel_matchups import plays_in_kernels
from league.rollout.matchup_distribution import LEARNER
from trainers.base.agent_group import agent_rows_of
from trainers.base.seeding import SEEDS
from trainers.models.kernel_networks import kernel_policies
from trainers.models.policy import Policy, PolicyProtocol
from trainers.runner.opponents import OpponentTable
from warp_kernels.framework.policies import NO_POLICY

__all__ = ["opponent_table"]


def opponent_table(
    game: Game,
    core: Core,
    matchups: Tensor,
    pools: Mapping[str, Sequence[PolicyProtocol]],
    learners: Sequence[str],
    drawn: Tensor,
    draw: MatchupDraw,
    seed: int,
) -> OpponentTable | None:
    """Return the opponents in matchups, or None if kernels do not support all of them.

    Args:
        game: Game with the seats.
        core: The environments.
        matchups: (R, S), policies of the seats in the pools of their roles, or LEARNER.
        pools: Policies by role.
        learners: Names of the learners, in the order of their numbers, see `Game.learners_of`.
        drawn: (E,), matchup of every world.
        draw: Distribution over matchups.
        seed: Random seed of the policies' actions.
    """
    rows = matchups.cpu()
    networks: list[Policy] = []
    places: dict[int, int] = {}  # by id of a network
    index = torch.full((len(rows), core.num_agents), NO_POLICY)
    for column, seat in enumerate(game.seats):
        agents, parts, names = agent_rows_of(core, seat.members), game.parts[column], game.learners_of(seat.role)
        for number, (part, name) in enumerate(zip(parts, names, strict=True)):
            place_of = {LEARNER: learners.index(name) if name in learners else NO_POLICY}
            for opponent in rows[:, column].unique().tolist():
                if opponent == LEARNER:
                    continue
                policy = part_policy(pools[seat.role][opponent], parts, number)
                if policy is None or isinstance(policy, MixturePolicy) or not plays_in_kernels(policy, core.device):
                    return None
                if isinstance(policy, Policy) and id(policy) not in places:
                    places[id(policy)] = len(learners) + len(networks)
                    networks.append(policy)
                place_of[opponent] = places.get(id(policy), NO_POLICY)
            slots = torch.tensor([place_of[opponent] for opponent in rows[:, column].tolist()])
            index[:, [agents[i] for i in part.places]] = slots.unsqueeze(1)
    policies = kernel_policies(networks, core.device, seed % SEEDS)
    return OpponentTable(policies, index, drawn, draw)
