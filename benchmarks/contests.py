"""Comparisons with peers and bounds as data: who plays whom, on what, and what is promised of it."""

from dataclasses import dataclass, field, replace
from functools import partial

from benchmarks.cases import Case, crowd
from benchmarks.entrants import Batch, Entrant, Learner
from benchmarks.games import SPIEL
from benchmarks.peers.process import Task

OURS = "core.step"
STEPS, GAMES = "env-steps/s", "games/s"


@dataclass(frozen=True)
class Heat:
    """Who takes turns in one alternating run; all others are compared with the first."""

    title: str
    entrants: tuple[Entrant, ...]
    goals: dict[str, str] = field(default_factory=dict)
    """Name of an entrant -> what is promised of the first one's throughput over its."""
    quick: bool = False
    """Played in ``make bench-quick`` too."""


@dataclass(frozen=True)
class Contest:
    """Heats that belong together; three or more lie on the curves of one picture."""

    id: str
    title: str
    env_id: str
    heats: tuple[Heat, ...]
    along: str = "worlds"
    """Or "agents": what grows from heat to heat."""
    unit: str = STEPS
    rounds: int | None = None
    """Rounds of a heat, where turns are long by their nature."""


def _ours(case: Case, bound: bool = False) -> tuple[Entrant, ...]:
    """The core, and the C step where there is one of these settings."""
    c_step = (Entrant("the C step", "bound", replace(case, entrance="bound")),) if bound else ()
    return (Entrant(OURS, "ours", case), *c_step)


def _peer(name: str, task: Task) -> Entrant:
    return Entrant(name, "peer", task)


def _worlds(count: int) -> str:
    return f"{count:,} world{'s' if count > 1 else ''}"


def _simple_tag(worlds: int) -> Heat:
    peers = [_peer("JaxMARL", Task("jaxmarl", "MPE_simple_tag_v3", worlds))]
    if worlds == 1:
        peers.append(_peer("mpe2", Task("mpe2", "simple_tag_v3", options={"max_cycles": 25})))
    if worlds >= 64:
        peers.append(_peer("VMAS as shipped", Task("vmas", "simple_tag", worlds)))
        peers.append(_peer("VMAS, 1 substep", Task("vmas", "simple_tag", worlds, {"substeps": 1})))
    goals = {"JaxMARL": ">= 20", "VMAS as shipped": ">= 100"} if worlds == 16384 else {}
    ours = _ours(Case("SimpleTag-v0", worlds, threads=min(2, worlds)), bound=True)
    return Heat(_worlds(worlds), (*ours, *peers), goals, quick=worlds == 1024)


def _simple_spread(worlds: int) -> Heat:
    peers = [_peer("JaxMARL", Task("jaxmarl", "MPE_simple_spread_v3", worlds))]
    if worlds == 1:
        peers.append(_peer("mpe2", Task("mpe2", "simple_spread_v3", options={"max_cycles": 25})))
    return Heat(_worlds(worlds), (*_ours(Case("SimpleSpread-v0", worlds, threads=min(2, worlds))), *peers))


def _cartpole(worlds: int) -> Heat:
    peers = (
        _peer("Gymnasium's own", Task("gymnasium", "CartPole-v1", worlds)),
        _peer("gymnax", Task("gymnax", "CartPole-v1", worlds)),
    )
    ours = _ours(Case("CartPole-v1", worlds, threads=min(2, worlds)))
    goals = {peer.name: ">= 1" for peer in peers}
    return Heat(_worlds(worlds), (*ours, *peers), goals, quick=worlds == 4096)


def _tag_continuous(agents: int) -> Heat:
    """As many agents in all, whatever a world has; WarpDrive's NumPy world alone, since it has no batch."""
    case = crowd(agents, max(1, 107_520 // agents))
    names = ("num_taggers", "num_runners", "grid_length", "tagging_distance", "runner_exits_game_after_tagged")
    theirs = {name: case.config[name] for name in names}
    theirs |= {"use_full_observation": False, "num_other_agents_observed": 10, "episode_length": 500}
    theirs |= {"max_acceleration": 0.1, "min_acceleration": -0.1, "max_turn": 2.35, "min_turn": -2.35}
    peers = (_peer("WarpDrive's NumPy world", Task("warpdrive", "tag_continuous", 1, theirs)),) if agents < 1000 else ()
    goals = {"the C step": ">= 0.6"} if agents == 105 else {}
    title = f"{agents:,} agents, {_worlds(case.num_envs)}"
    return Heat(title, (*_ours(case, bound=agents == 105), *peers), goals, quick=agents == 105)


def _game(env_id: str) -> Heat:
    """A step that shows as much against a loop that reads as much, and bare play."""
    spiel = partial(Task, "openspiel", SPIEL[env_id])
    entrants = (
        Entrant("core.step(core.sample_actions())", "ours", Batch(env_id, 4096, fused=False)),
        Entrant("core.play_random", "ours", Batch(env_id, 4096, fused=True)),
        _peer("pyspiel loop with observations", spiel(options={"players": "loop with observations"})),
        _peer("pyspiel loop", spiel(options={"players": "loop"})),
        _peer("pyspiel's random bots", spiel(options={"players": "bots"})),
    )
    goals = {"pyspiel loop with observations": ">= 10"}
    return Heat(env_id, entrants, goals, quick=env_id == "LeducPoker-v0")


SB3 = {"rollout_length": 2048, "epochs": 10, "minibatches": 256, "learning_rate": 3e-4, "gamma": 0.99}
"""Stable-Baselines3's defaults: 8 worlds of 2048 steps in minibatches of 64."""
JAXMARL = {"rollout_length": 128, "epochs": 4, "minibatches": 4, "learning_rate": 2.5e-3, "gamma": 0.99}
"""JaxMARL's published settings of IPPO for MPE."""

_LEARNING = (
    Heat(
        "CartPole-v1, 8 worlds",
        (
            Entrant("PPO with SB3's settings", "ours", Learner("CartPole-v1", 8, SB3)),
            Entrant("PPO with its preset, 64 worlds", "ours", Learner("CartPole-v1", None, None)),
            _peer("Stable-Baselines3 PPO", Task("sb3", "CartPole-v1", 8, threads=1)),
        ),
    ),
    Heat(
        "SimpleSpread-v0, 16 worlds",
        (
            Entrant("PPO with JaxMARL's settings", "ours", Learner("SimpleSpread-v0", 16, JAXMARL)),
            _peer("IPPO in JAX on JaxMARL", Task("jaxmarl", "MPE_simple_spread_v3", 16, module="jaxmarl_training")),
        ),
    ),
)


def _door(name: str, entrance: str, worlds: int, reuse: bool = True) -> Entrant:
    return Entrant(name, "door", Case("SimpleSpread-v0", worlds, entrance, reuse, threads=min(2, worlds)))


LIBRARIES = {"Stable-Baselines3's VecEnv": "sb3", "TorchRL's EnvBase": "torchrl", "skrl's interface": "skrl"}
"""Doors that need a library of their own, and so an environment of their own."""


def _library_door(name: str, entrance: str, worlds: int) -> Entrant:
    task = Task("doors", "SimpleSpread-v0", worlds, {"entrance": entrance}, module="door")
    return Entrant(name, "door", task)


_DOORS = (
    Heat(
        "4,096 worlds",
        (
            Entrant(OURS, "ours", Case("SimpleSpread-v0", 4096)),
            _door("core.step, clones", "core", 4096, False),
            _door("dicts of tensors", "dict", 4096),
            _door("dicts of tensors, clones", "dict", 4096, False),
            _door("rows of tensors", "rows", 4096),
            _door("rows of arrays", "numpy rows", 4096),
            *(_library_door(name, entrance, 4096) for name, entrance in LIBRARIES.items()),
        ),
        quick=True,
    ),
    Heat(
        "1 world",
        (
            Entrant(OURS, "ours", Case("SimpleSpread-v0", 1, threads=1)),
            _door("PettingZoo, one world", "pettingzoo", 1, False),
            _door("Gymnasium, one agent", "gymnasium env", 1, False),
        ),
    ),
)

CONTESTS = (
    Contest(
        "peers-simple-tag",
        "SimpleTag-v0 beside its peers",
        "SimpleTag-v0",
        tuple(map(_simple_tag, (1, 64, 1024, 16384))),
    ),
    Contest(
        "peers-simple-spread",
        "SimpleSpread-v0 beside its peers",
        "SimpleSpread-v0",
        tuple(map(_simple_spread, (1, 1024, 16384))),
    ),
    Contest(
        "peers-tag-continuous",
        "TagContinuous-v0 beside its peers: 5 % taggers, 10 neighbours seen, nobody exits",
        "TagContinuous-v0",
        tuple(map(_tag_continuous, (20, 105, 1_000, 10_000))),
        along="agents",
    ),
    Contest(
        "peers-tag-gridworld",
        "TagGridworld-v0 beside WarpDrive's NumPy world",
        "TagGridworld-v0",
        (
            Heat(
                "4,096 worlds",
                (
                    Entrant(OURS, "ours", Case("TagGridworld-v0", 4096)),
                    _peer("WarpDrive's NumPy world", Task("warpdrive", "tag_gridworld")),
                ),
            ),
        ),
    ),
    Contest(
        "peers-cartpole", "CartPole-v1 beside its peers", "CartPole-v1", tuple(map(_cartpole, (1, 64, 4096, 16384)))
    ),
    Contest(
        "peers-games",
        "Random games beside OpenSpiel, 4,096 worlds",
        "LeducPoker-v0",
        tuple(map(_game, SPIEL)),
        unit=GAMES,
    ),
    Contest("peers-training", "PPO, learning included", "CartPole-v1", _LEARNING, rounds=3),
    Contest("doors-all", "Every door to SimpleSpread-v0", "SimpleSpread-v0", _DOORS),
)
