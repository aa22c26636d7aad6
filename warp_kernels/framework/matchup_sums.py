"""Kernel that adds up the returns of episodes by matchup."""

from functools import cache
from typing import Any

import warp as wp


@cache
def build_matchup_sums() -> Any:
    """Build the kernel of one thread, without compiling it; sums are in the order of the worlds.

    Arguments: draw margin (1,); matchup (L,) and number of worlds (L,) of every lineup, 0 after the last one; returns
    of the policies (W, S); sums (K, 3 * S). The worlds of a lineup follow one another. Returns, their squares and
    scores are added to the sums. Scores equal ``league.matchups.matchups.scores``.
    """

    @wp.kernel(module="warp_kernels.matchup_sums", name="matchup_sums")
    def matchup_sums(
        draw_margin: wp.array(dtype=wp.float64),
        matchup: wp.array(dtype=wp.int64),
        count: wp.array(dtype=wp.int64),
        earned: wp.array2d(dtype=wp.float64),
        sums: wp.array2d(dtype=wp.float64),
    ):
        seats = earned.shape[1]
        world = int(0)
        lineup = int(0)
        while lineup < count.shape[0] and count[lineup] > wp.int64(0):
            row = int(matchup[lineup])
            last = world + int(count[lineup])
            while world < last:
                seat = int(0)
                while seat < seats:
                    payoff = earned[world, seat]
                    beaten = wp.float64(0.0)  # minus the seats with a higher return
                    other = int(0)
                    while other < seats:
                        ahead = payoff - earned[world, other]
                        if seats == 2 and other != seat:
                            ahead = earned[world, 0] - earned[world, 1] - draw_margin[0]
                            if seat == 1:
                                ahead = -ahead
                        if ahead > wp.float64(0.0):
                            beaten += wp.float64(1.0)
                        elif ahead < wp.float64(0.0):
                            beaten -= wp.float64(1.0)
                        other += 1
                    score = wp.float64(0.5) + wp.float64(0.5) * beaten / wp.float64(wp.max(seats - 1, 1))
                    sums[row, seat] = sums[row, seat] + payoff
                    sums[row, seats + seat] = sums[row, seats + seat] + payoff * payoff
                    sums[row, 2 * seats + seat] = sums[row, 2 * seats + seat] + score
                    seat += 1
                world += 1
            lineup += 1

    return matchup_sums
