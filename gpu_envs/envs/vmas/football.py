"""VMASFootball-v0 (3 agents): Two teams push a ball into goals."""

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import torch
from gymnasium import spaces

from gpu_envs.definition.environment import EnvDefinition, WorldView, params_of, roster
from gpu_envs.descriptions import ANY, Entities, ObservationBlock, points
from gpu_envs.envs.vmas.scenario import MOVES, ScenarioConfig, own_motion, require_room, velocity, way
from gpu_envs.envs.vmas.scene import scene
from gpu_envs.errors import ConfigError
from gpu_envs.rendering.scene import BLUE, DARK, GRAY, GREEN, RED, Scene, boxes, lines, rings
from gpu_envs.utils.settings import MAX_INT, setting
from warp_kernels.physics2d.bodies import Physics
from warp_kernels.vmas.football import football, pitch

_WHITE = (1.0, 1.0, 1.0)
_SHOOTING, _SCRIPT, _FORMATION = {"enable_shooting": True}, {"ai_red_agents": True}, {"spawn_in_formation": True}


@dataclass(frozen=True)
class Config(ScenarioConfig):
    """Settings of VMASFootball-v0, with the names and defaults of VMAS."""

    FOREIGN_NAMES: ClassVar[dict[str, str]] = {
        "ai_blue_agents": "blue players are agents; only red ones may follow the script",
        "dict_obs": "observations are vectors; gpu-envs info lists their parts",
        "n_traj_points": "the script is not drawn",
    }
    """Settings of VMAS that are left out."""

    max_steps: int = setting(500, ge=1, le=MAX_INT)
    """Time limit [steps]; the episode is truncated. VMAS has none by default; 500 is BenchMARL's."""
    continuous_actions: bool = setting(True)
    """Use Box(-1, 1, (2,)) actions, or (4,) with `enable_shooting`, instead of Discrete(9) or Discrete(81)."""
    n_blue_agents: int = setting(3, ge=1)
    """Number of blue players, which are agents."""
    n_red_agents: int = setting(3, ge=0)
    """Number of red players."""
    ai_red_agents: bool = setting(True)
    """Red players follow a script; otherwise they are agents."""
    physically_different: bool = setting(False)
    """The five blue players are two fast attackers, two defenders and a slow, large goalkeeper."""
    spawn_in_formation: bool = setting(False)
    """Blue players start in columns instead of at random points."""
    only_blue_formation: bool = setting(True, requires=_FORMATION)
    """Red players start at random points then, too."""
    formation_agents_per_column: int = setting(2, ge=1, requires=_FORMATION)
    """Players of a column."""
    randomise_formation_indices: bool = setting(False, requires=_FORMATION)
    """The places of the players in the formation are drawn."""
    formation_noise: float = setting(0.2, ge=0.0, requires=_FORMATION)
    """Side of the square around its place in which a player starts [m]."""
    ai_strength: float = setting(1.0, ge=0.0, le=1.0, requires=_SCRIPT)
    """Speed of scripted players."""
    ai_decision_strength: float = setting(1.0, ge=0.0, le=1.0, requires=_SCRIPT)
    """How well scripted players choose places and who of them goes for the ball."""
    ai_precision_strength: float = setting(1.0, ge=0.0, le=1.0, requires=_SCRIPT)
    """How exactly scripted players move."""
    disable_ai_red: bool = setting(False, requires=_SCRIPT)
    """Scripted players do not push themselves."""
    agent_size: float = setting(0.025, gt=0.01)
    """Radius of a player [m]."""
    goal_size: float = setting(0.35, gt=0.0)
    """Width of a goal [m]."""
    goal_depth: float = setting(0.1, gt=0.0)
    """Depth of a goal [m]."""
    pitch_length: float = setting(3.0, gt=0.0)
    """Distance of the goals [m]."""
    pitch_width: float = setting(1.5, gt=0.0)
    """Width of the pitch [m]."""
    ball_mass: float = setting(0.25, gt=0.0)
    """Mass of the ball [kg]."""
    ball_size: float = setting(0.02, gt=0.0)
    """Radius of the ball [m]."""
    u_multiplier: float = setting(0.1, gt=0.0)
    """Force of a player at full throttle along each axis [N]."""
    enable_shooting: bool = setting(False)
    """Agents turn and shoot."""
    u_rot_multiplier: float = setting(0.0003, gt=0.0, requires=_SHOOTING)
    """Torque of an agent at full throttle [Nm]."""
    u_shoot_multiplier: float = setting(0.6, ge=0.0, requires=_SHOOTING)
    """Strength of a shot at full throttle: its force is 2.67 times the square [N]."""
    shooting_radius: float = setting(0.08, ge=0.0, requires=_SHOOTING)
    """Largest distance of a ball that an agent shoots [m]."""
    shooting_angle: float = setting(0.5 * math.pi, ge=0.0, requires=_SHOOTING)
    """Angle in front of an agent, in which it shoots the ball [rad]."""
    max_speed: float = setting(0.15, gt=0.0)
    """Largest speed of players [m/s]."""
    ball_max_speed: float = setting(0.3, gt=0.0)
    """Largest speed of the ball [m/s]."""
    dense_reward: bool = setting(True)
    """Agents are rewarded for the way of the ball to the goal, and for their way to the ball."""
    pos_shaping_factor_ball_goal: float = setting(10.0)
    """Reward per meter that the ball comes nearer to the goal of the opponents [1/m]."""
    pos_shaping_factor_agent_ball: float = setting(0.1)
    """Reward per meter that the nearest agent of a team comes nearer to a ball at rest [1/m]."""
    distance_to_ball_trigger: float = setting(0.4)
    """There is none if that agent is nearer to the ball than this [m]."""
    scoring_reward: float = setting(100.0)
    """Reward of a goal, and cost of one by the opponents."""
    observe_teammates: bool = setting(True)
    """Agents observe the other players of their team."""
    observe_adversaries: bool = setting(True)
    """Agents observe the players of the other team."""


def sizes_of(config: Config) -> pitch.Sizes:
    """Return what the kernels capture."""
    return pitch.Sizes(
        num_blue=config.n_blue_agents,
        num_red=config.n_red_agents,
        ai_red=config.ai_red_agents,
        physically_different=config.physically_different,
        column=config.formation_agents_per_column if config.spawn_in_formation else 0,
        blue_formation_only=config.only_blue_formation,
        random_order=config.randomise_formation_indices,
        shooting=config.enable_shooting,
        observe_teammates=config.observe_teammates,
        observe_adversaries=config.observe_adversaries,
        agent_size=config.agent_size,
        goal_size=config.goal_size,
        goal_depth=config.goal_depth,
        pitch_length=config.pitch_length,
        pitch_width=config.pitch_width,
        ball_size=config.ball_size,
        max_speed=config.max_speed,
        u_rot_multiplier=config.u_rot_multiplier,
    )


def physics_of(config: Config) -> Physics:
    """Return the bodies."""
    return pitch.physics(sizes_of(config))


def build(config: Config) -> EnvDefinition:
    _check(config)
    sizes, physics = sizes_of(config), physics_of(config)
    components = 4 if config.enable_shooting else 2
    action: spaces.Space[object] = spaces.Discrete(len(MOVES) ** components)
    if config.continuous_actions:
        action = spaces.Box(-1.0, 1.0, (components,), np.float32)
    counts = {"agent_blue": sizes.num_blue} | ({} if config.ai_red_agents else {"agent_red": sizes.num_red})
    has_equal_teams = not config.ai_red_agents and sizes.num_blue == sizes.num_red
    return EnvDefinition(
        **roster(counts, {name: sizes.width(name == "agent_red") for name in counts}, dict.fromkeys(counts, action)),
        rules=football.rules(sizes, config.continuous_actions),
        params=params_of(config, pitch.Params),
        state={**sizes.shapes(), **physics.fields},
        results=("score",),
        roles={} if config.ai_red_agents else {name: (name,) for name in counts},
        zero_sum=has_equal_teams and not config.dense_reward,
        max_episode_steps=config.max_steps,
        time_limit_terminates=False,
        bounds=dict.fromkeys(("disable_ai_red", "dense_reward"), (0, 1)),
        draw=draw,
    )


def _check(config: Config) -> None:
    """Raise a ConfigError if the teams, the pitch or the forces do not fit each other."""
    largest = config.agent_size
    if config.physically_different:
        largest += 0.01  # the goalkeeper's radius
        least = {"max_speed": 0.1, "u_multiplier": 0.05} | (
            {"u_shoot_multiplier": 0.2} if config.enable_shooting else {}
        )
        if config.n_blue_agents != pitch.PLAYERS:
            raise ConfigError(
                f"physically_different: expected n_blue_agents={pitch.PLAYERS}, got {config.n_blue_agents}"
            )
        for name, value in least.items():
            if getattr(config, name) <= value:
                raise ConfigError(f"physically_different: expected {name} > {value}, got {getattr(config, name)}")
    if not config.ai_red_agents and config.n_red_agents < 1:
        raise ConfigError(f"ai_red_agents=False: expected n_red_agents >= 1, got {config.n_red_agents}")
    narrowest, widest = 2.0 * max(largest, config.ball_size), config.pitch_width - 2.0 * config.agent_size
    if not narrowest < config.goal_size < widest:
        raise ConfigError(
            f"goal_size: expected more than {narrowest:g}, the width of players and ball, and less than {widest:g}, "
            f"the width of the pitch without players, got {config.goal_size}"
        )
    if config.pitch_length <= 4.0 * config.agent_size:
        raise ConfigError(f"pitch_length: expected more than {4.0 * config.agent_size:g}, got {config.pitch_length}")
    for count in (config.n_blue_agents, config.n_red_agents):
        require_room(count, 2.0 * config.agent_size, 0.5 * config.pitch_length, config.pitch_width)


def draw(core: WorldView, envs: torch.Tensor) -> Scene:
    """Return the scene of these worlds: blue and red players and a white ball on a green pitch with gray nets."""
    config, physics = core.config, physics_of(core.config)
    half = 0.5 * torch.tensor([config.pitch_length, config.pitch_width], device=core.device)
    width, reach = half[0].item(), half[1].item()
    center = torch.zeros(1, 1, 2, device=core.device)
    net = center + torch.tensor([half[0] + 0.5 * (config.goal_depth - config.agent_size), 0.0], device=core.device)
    net_half = torch.tensor([config.goal_depth, config.goal_size], device=core.device) / 2.0
    line = center + torch.tensor([0.0, reach], device=core.device)
    background = (
        boxes(center, half, GREEN, 0.75),
        boxes(torch.cat([net, -net], 1), net_half, GRAY, 0.5),
        boxes(center, half, _WHITE, 0.9, 0.012),
        lines(line, -line, 0.012, _WHITE, 0.9),
        rings(center, 0.5 * config.goal_size, _WHITE, 0.012, 0.9),
    )
    colors = {rows.body.name: BLUE for rows in physics.rows} | {"red": RED, "ball": _WHITE}
    colors |= dict.fromkeys(("wall", "goal_back", "goal_side"), DARK)
    view = max(width + config.goal_depth, reach)
    return scene(core, envs, physics, colors, under=background, view=view)


def action_names(config: Config, row: int) -> list[str]:
    """Return the names of discrete actions, or of the components of continuous ones."""
    components, sides = 4 if config.enable_shooting else 2, ["right", "left"]
    if row >= config.n_blue_agents:
        sides.reverse()
    if config.continuous_actions:
        return ["throttle forward", "throttle up", f"torque to the {sides[1]}", "shot"][:components]
    turns = ("", *(f"turn {side}" for side in sides))
    axes = (("", "backward", "forward"), ("", "down", "up"), turns, ("", "shoot back", "shoot"))[:components]
    return [" ".join(filter(None, words)) or "nothing" for words in product(*axes)]


def observation_blocks(config: Config, row: int) -> list[ObservationBlock]:
    sizes = sizes_of(config)
    is_red = row >= config.n_blue_agents
    mates, opponents = (sizes.num_red, sizes.num_blue) if is_red else (sizes.num_blue, sizes.num_red)
    heading = ObservationBlock("own direction; 0: to the goal of the opponents", "rad", -ANY, ANY)
    return [
        points("own force (x, y)", "N"),
        way("the agent relative to the ball"),
        points("own velocity relative to that of the ball (x, y)", "m/s"),
        way("the ball relative to the goal of the opponents"),
        velocity("the ball"),
        points("force of walls and shots on the ball (x, y)", "N"),
        *([heading] if config.enable_shooting else []),
        way("the agent relative to the goal of the opponents"),
        own_motion()[1],
        *_players("opponents", opponents * config.observe_adversaries),
        *_players("teammates", (mates - 1) * config.observe_teammates),
    ]


def _players(name: str, count: int) -> list[ObservationBlock]:
    """Return the block of other players."""
    meaning = f"{name}: the agent relative to it, own velocity relative to its, its velocity, its force (x, y of each)"
    parts = [f"{part} {axis}" for part in ("place", "relative velocity", "velocity", "force") for axis in ("x", "y")]
    entities = Entities(name, count) if count else None
    return [ObservationBlock(meaning, "m, m/s, N", -ANY, ANY, 8 * count, parts, entities)]
