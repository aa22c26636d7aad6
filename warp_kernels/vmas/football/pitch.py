"""Football: sizes, parameters and state, and the scene of players, ball, walls and goals."""

import math
from functools import cache
from typing import NamedTuple

import warp as wp

from warp_kernels.physics2d.bodies import Body, Disc, Line, Physics

NOISE: int = wp.constant(12)  # normal numbers of a scripted player for a step
ATTACKERS, DEFENDERS, KEEPERS = 2, 2, 1
"""Blue players in the order of their rows if they differ physically."""
PLAYERS = ATTACKERS + DEFENDERS + KEEPERS
"""Number of them."""


class Sizes(NamedTuple):
    """What the kernels capture."""

    num_blue: int
    """Number of blue players B."""
    num_red: int
    """Number of red players R."""
    ai_red: bool
    """Red players follow a script and are no agents."""
    physically_different: bool
    """Blue players are two attackers, two defenders and a goalkeeper."""
    column: int
    """Players of a column of the formation; 0: players start at random points."""
    blue_formation_only: bool
    """Red players start at random points."""
    random_order: bool
    """The places of the formation are drawn."""
    shooting: bool
    """Agents turn and shoot."""
    observe_teammates: bool
    """Agents observe the other players of their team."""
    observe_adversaries: bool
    """Agents observe the players of the other team."""
    agent_size: float
    """Radius of a player [m]."""
    goal_size: float
    """Width of a goal [m]."""
    goal_depth: float
    """Depth of a goal [m]."""
    pitch_length: float
    """Distance of the goals [m]."""
    pitch_width: float
    """Width of the pitch [m]."""
    ball_size: float
    """Radius of the ball [m]."""
    max_speed: float
    """Largest speed of players [m/s]."""
    u_rot_multiplier: float
    """Torque of an agent at full throttle [Nm]."""

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return self.num_blue + (0 if self.ai_red else self.num_red)

    @property
    def num_scripted(self) -> int:
        """Number of scripted players."""
        return self.num_red if self.ai_red else 0

    @property
    def ball(self) -> int:
        """Row of the ball."""
        return self.num_blue + self.num_red

    @property
    def num_teams(self) -> int:
        """Number of teams of agents."""
        return 1 if self.ai_red else 2

    def width(self, is_red: bool) -> int:
        """Return the width of the observation of a blue or red agent."""
        mates, opponents = (self.num_red, self.num_blue) if is_red else (self.num_blue, self.num_red)
        players = (mates - 1) * self.observe_teammates + opponents * self.observe_adversaries
        return 16 + self.shooting + 8 * players

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return shapes of the fields of State that do not belong to bodies, and of unused ones."""
        scripted, teams = self.num_scripted, self.num_teams
        return {
            **dict.fromkeys(("rot", "spin", "torque"), (0,)),
            "kick": (self.num_agents * self.shooting,),
            "target": (scripted,),
            "lead": (scripted,),
            "noise": (scripted, int(NOISE)),
            **dict.fromkeys(("ball_to_goal", "agent_to_ball", "earned"), (teams,)),
            "score": (self.num_agents,),
        }


@wp.struct
class Params:
    """Environment parameters."""

    ball_mass: float  # [kg]
    ball_max_speed: float  # [m/s]
    u_multiplier: float  # force of an agent at full throttle along each axis [N]
    u_shoot_multiplier: float  # strength of shots [N^0.5]
    shooting_radius: float  # largest distance of a ball that an agent shoots [m]
    shooting_angle: float  # angle in front of an agent, in which it shoots the ball [rad]
    ai_strength: float  # speed of scripted players, 0 to 1 [1]
    ai_decision_strength: float  # their choice of places and of who goes for the ball, 0 to 1 [1]
    ai_precision_strength: float  # how exactly they move, 0 to 1 [1]
    disable_ai_red: int  # 1: scripted players do not push themselves
    formation_noise: float  # side of the square of starts around a place of the formation [m]
    dense_reward: int  # 1: agents are rewarded for the way of the ball, and for theirs to the ball
    pos_shaping_factor_ball_goal: float  # reward per meter that the ball comes nearer to the goal [1/m]
    pos_shaping_factor_agent_ball: float  # reward per meter that the nearest agent comes nearer to the ball [1/m]
    distance_to_ball_trigger: float  # only agents at least so far from the ball are rewarded for their way to it [m]
    scoring_reward: float  # reward of a goal


@wp.struct
class State:
    """State of E worlds: B blue and R red players, A agents, S scripted players, T teams of agents."""

    pos: wp.array2d(dtype=wp.vec2)  # (E, N) of blue and red players, ball and walls [m]
    vel: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) [m/s]
    force: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) in the current substep [N]
    rot: wp.array2d(dtype=float)  # (E, A) with shooting: directions [rad]
    spin: wp.array2d(dtype=float)  # (E, A) with shooting [rad/s]
    torque: wp.array2d(dtype=float)  # (E, A) with shooting, in the current substep [Nm]
    drive: wp.array2d(dtype=wp.vec2)  # (E, B + R + 1) force by which a player pushes itself, and that on the ball [N]
    kick: wp.array2d(dtype=wp.vec2)  # (E, A) with shooting: force of an agent's shot on the ball [N]
    target: wp.array2d(dtype=wp.vec2)  # (E, S) where a scripted player goes [m]
    lead: wp.array2d(dtype=wp.vec2)  # (E, S) the same, relative to the ball when it was chosen [m]
    noise: wp.array3d(dtype=float)  # (E, S, 12) normal numbers of the next step: 1 of the choice of who goes for the
    # ball, 2 of each of two new places, 3 of the values of places, 2 of the target, 2 of the velocity there
    ball_to_goal: wp.array2d(dtype=float)  # (E, T) distance of the ball to the goal of the opponents [m]
    agent_to_ball: wp.array2d(dtype=float)  # (E, T) distance of the nearest agent to the ball [m]
    earned: wp.array2d(dtype=float)  # (E, T) reward of the step
    score: wp.array2d(dtype=float)  # (E, A) of the step: 1 if the agent's team has scored, -1 if the other one has


@cache
def physics(sizes: Sizes) -> Physics:
    """Return the scene."""
    size, speed, turn = sizes.agent_size, sizes.max_speed, sizes.u_rot_multiplier

    def players(name: str, count: int, radius: float, speed: float, turn: float, is_agent: bool = True) -> Body:
        turns = sizes.shooting and is_agent
        thrust = turn if turns else 0.0
        return Body(
            name,
            Disc(radius),
            count=count,
            is_movable=True,
            is_rotatable=turns,
            turning_thrust=thrust,
            max_speed=speed,
        )

    if sizes.physically_different:
        blue = (
            players("attacker", ATTACKERS, size - 0.005, speed + 0.05, turn),
            players("defender", DEFENDERS, size, speed, turn),
            players("goalkeeper", KEEPERS, size + 0.01, speed - 0.1, turn + 0.2),
        )
    else:
        blue = (players("blue", sizes.num_blue, size, speed, turn),)
    wall = 0.5 * sizes.pitch_width - size - 0.5 * sizes.goal_size
    return Physics(
        bodies=(
            *blue,
            players("red", sizes.num_red, size, speed, -turn, not sizes.ai_red),
            Body("ball", Disc(sizes.ball_size), is_movable=True, mass="ball_mass", max_speed="ball_max_speed"),
            Body("wall", Line(wall), count=4, angle=0.5 * math.pi),
            Body("goal_back", Line(sizes.goal_size), count=2, angle=0.5 * math.pi),
            Body("goal_side", Line(sizes.goal_depth), count=4),
        ),
        agents=sizes.num_agents,
        driven=sizes.ball + 1,
        extra_throttles=int(sizes.shooting),
        substeps=2,
        drag=0.05,
        half_width=0.5 * sizes.pitch_length + sizes.goal_depth - size,
        half_height=0.5 * sizes.pitch_width - size,
    )
