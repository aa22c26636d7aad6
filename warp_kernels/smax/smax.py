"""SMAX: battles of two sides of units on a plane, as JaxMARL 0.2.0."""

from functools import cache

from warp_kernels.rules import Rules, item_phase, world_phase
from warp_kernels.smax.battle import battle
from warp_kernels.smax.decisions import decisions
from warp_kernels.smax.observations import observations
from warp_kernels.smax.starts import start
from warp_kernels.smax.units import NUM_MOVES, Params, State, relayout

CONTROLS = 4
"""Components of a continuous action."""


@cache
def rules(num_allies: int, num_enemies: int, num_types: int, self_play: bool, continuous: bool, conic: bool) -> Rules:
    """Build the rules.

    Args:
        num_allies: Number of allies A1.
        num_enemies: Number of enemies A2.
        num_types: Number of unit types N.
        self_play: Enemies are agents, too; otherwise they follow the heuristic.
        continuous: Actions are boxes.
        conic: Observe sections of a circle instead of a list of units.
    """
    num_units = num_allies + num_enemies
    num_agents = num_units if self_play else num_allies
    num_targets = max(num_allies, num_enemies) if self_play else num_enemies
    equal = not self_play or num_allies == num_enemies
    fight, stand, separate = battle(num_allies, num_enemies, num_agents)
    observe, legal, global_state = observations(num_allies, num_enemies, num_types, conic, NUM_MOVES + num_targets)
    return Rules(
        key=f"smax {num_allies} {num_enemies} {num_types} {self_play} {continuous} {conic}",
        params=Params,
        state=State,
        num_agents=num_agents,
        action_size=CONTROLS if continuous else 1,
        continuous=continuous,
        phases=(
            item_phase(
                num_units,
                decisions(num_allies, num_enemies, num_agents, continuous),
                reads="kind pos health stats key attack goal victim io.choice io.control io.step",
                writes="move attack goal victim",
            ),
            world_phase(
                fight,
                reads="kind pos health cooldown stats key body before push damage move attack io.step",
                writes="pos health cooldown body before push damage lives won io.reward io.terminated",
            ),
        ),
        observe=observe,
        legal=None if continuous else legal,
        reset=start(num_allies, num_enemies, num_agents, num_types, stand, separate),
        global_state=global_state,
        masked=not continuous,
        illegal_noop=not continuous,
        relayout=relayout(num_allies, num_enemies, num_agents, num_types),
        num_choices=NUM_MOVES + num_targets if equal and not continuous else 0,
        max_unroll=1,
    )
