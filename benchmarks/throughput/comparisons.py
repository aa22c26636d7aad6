"""Comparisons with other libraries, bounds and interfaces: rounds, contenders and their targets, as data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.hardware.bounds import NO_EXITS
from benchmarks.hardware.provenance import THREADS
from benchmarks.peers.process import PeerTask
from benchmarks.throughput.cases import Case, many_agents
from benchmarks.throughput.contenders import SPIEL, Contender, Games, PPOSubject, RolloutSubject

CORE_STEP, SAMPLED_STEP, ROLLOUT = "core.step", "core.step(core.sample_actions())", "core.random_rollout"
STEPS, GAMES, MICROSECONDS = "env-steps/s", "games/s", "µs a step"


@dataclass(frozen=True)
class Round:
    """Contenders of one alternating run; all others are compared with the first."""

    title: str
    contenders: tuple[Contender, ...]
    goals: Mapping[str, str] = field(default_factory=dict)
    """Name of a contender -> target of the ratio of the first one's throughput to its own."""
    alone: Mapping[str, str] = field(default_factory=dict)
    """Unit of the comparison or ``MICROSECONDS`` -> target of the first contender."""
    quick: bool = False
    """True: the round is part of ``make bench-quick``."""
    busy_cores: int = 0
    """Number of cores that another program keeps busy meanwhile; it does not count as a disturbance."""


@dataclass(frozen=True)
class ComparisonGroup:
    """Rounds of one section of the report."""

    id: str
    title: str
    rounds: tuple[Round, ...]
    along: str = ""
    """"worlds" or "agents": the x axis of the plot over rounds; empty without a plot."""
    unit: str = STEPS
    repeats: int | None = None
    """Maximum number of samples per contender, for long turns."""
    turn: float = 0.0
    """Approximate duration of a long turn [s]."""


def peer(name: str, library: str, game: str, worlds: int = 1, **settings: Any) -> Contender:
    """Return a contender of another library, with at most one thread per world."""
    return Contender(name, "peer", PeerTask(library, game, worlds, **{"threads": min(THREADS, worlds), **settings}))


def world_count(count: int) -> str:
    """Return the number of worlds as text."""
    return f"{count:,} world{'s' if count > 1 else ''}"


def _round(case: Case, *contenders: Contender, title: str = "", bound: bool = False, **settings: Any) -> Round:
    """Return a round of ``core.step``, maybe the C step, and other contenders."""
    c_step = (Contender("the C step", "bound", replace(case, interface="bound")),) if bound else ()
    core = Contender(CORE_STEP, "gpu_envs", case)
    return Round(title or world_count(case.num_envs), (core, *c_step, *contenders), **settings)


def _original(
    env_id: str, sizes: Sequence[int], contender: Contender, goal: str = "", quick: bool = False
) -> tuple[Round, ...]:
    """Return rounds against one world of the original; goal and ``quick`` are for the most worlds."""
    rounds = [_round(Case(env_id, worlds), contender) for worlds in sizes]
    rounds[-1] = replace(rounds[-1], goals={contender.name: goal} if goal else {}, quick=quick)
    return tuple(rounds)


def _rollout(title: str, case: Case, contender: Contender, goal: str) -> Round:
    """Return a round of random rollouts against a compiled JAX loop, both without Python between steps."""
    rollout = Contender(ROLLOUT, "gpu_envs", replace(case, interface="random play"))
    return Round(title, (rollout, contender), {contender.name: goal})


# ---------------------------------------------------------------- MPE and Tag

MPE = ("Simple", "SimpleAdversary", "SimpleCrypto", "SimplePush", "SimpleReference")
MPE += ("SimpleSpeakerListener", "SimpleWorldComm")
"""Scenarios of MPE, apart from those with their own groups."""


def _envpool_mpe(scenario: str, worlds: int) -> Contender:
    """Return a scenario of MPE in EnvPool with the episode length of gpu-envs; EnvPool has MPE since 1.2.8."""
    module = "benchmarks.peers.inside.envpool"
    return peer("EnvPool", "envpool_mpe", scenario, worlds, options={"max_episode_steps": 25}, module=module)


def _mpe2(name: str, game: str) -> Contender:
    """Return one world of mpe2 with the episode length of gpu-envs."""
    return peer(name, "mpe2", game, options={"max_cycles": 25})


def _simple_tag(worlds: int) -> Round:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_tag_v3", worlds), _envpool_mpe("simple_tag", worlds)]
    if worlds == 1:
        peers.append(_mpe2("mpe2", "simple_tag_v3"))
    if worlds >= 64:
        peers.append(peer("VMAS as shipped", "vmas", "simple_tag", worlds))
        peers.append(peer("VMAS, 1 substep", "vmas", "simple_tag", worlds, options={"substeps": 1}))
    goals = {"the C step": ">= 0.45", "JaxMARL": ">= 20", "VMAS as shipped": ">= 100", "EnvPool": ">= 1"}
    return _round(
        Case("SimpleTag-v0", worlds),
        *peers,
        bound=True,
        goals=goals if worlds == 16384 else {},
        alone={MICROSECONDS: "<= 15"} if worlds == 1 else {},
        quick=worlds == 1024,
    )


def _simple_spread(worlds: int) -> Round:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_spread_v3", worlds), _envpool_mpe("simple_spread", worlds)]
    if worlds == 1:
        peers.append(_mpe2("mpe2", "simple_spread_v3"))
    return _round(Case("SimpleSpread-v0", worlds), *peers, alone={STEPS: ">= 1e7"} if worlds == 16384 else {})


def _mpe(name: str, worlds: int = 4096) -> Round:
    scenario, title = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), f"{name}-v0, {world_count(worlds)}"
    return _round(Case(f"{name}-v0", worlds), _envpool_mpe(scenario, worlds), title=title, goals={"EnvPool": ">= 1"})


def _warpdrive_tag(case: Case) -> Contender:
    """Return WarpDrive's NumPy world with the settings of a case; WarpDrive has no batch on a CPU."""
    names = ("num_taggers", "num_runners", "grid_length", "tagging_distance", "runner_exits_game_after_tagged")
    settings = {name: case.config[name] for name in names}
    settings |= {"use_full_observation": False, "num_other_agents_observed": 10, "episode_length": 500}
    settings |= {"max_acceleration": 0.1, "min_acceleration": -0.1, "max_turn": 2.35, "min_turn": -2.35}
    return peer("WarpDrive's NumPy world", "warpdrive", "tag_continuous", options=settings)


def _tag_continuous(agents: int, worlds: int, title: str = "") -> Round:
    case, has_goal = many_agents(agents, worlds), (agents, worlds) == (105, 1024)
    peers = (_warpdrive_tag(case),) if agents < 1000 else ()
    goals = {"the C step": ">= 0.6"} if has_goal else {}
    return _round(case, *peers, title=title, bound=agents == 105, goals=goals, quick=has_goal)


def _constant_agent_total(agents: int) -> Round:
    """Return a round with a constant total number of agents."""
    worlds = max(1, 107_520 // agents)
    return _tag_continuous(agents, worlds, f"{agents:,} agents, {world_count(worlds)}")


# ---------------------------------------------------------------- classic control, other environments

CLASSIC = ("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0")
"""Environments of Gymnasium with equal rules in EnvPool, without CartPole; its Pendulum exceeds the largest speed."""


def _cartpole(worlds: int) -> Round:
    gymnasium, gymnax = "Gymnasium's own", "gymnax"
    peers = [
        peer(gymnasium, "gymnasium", "CartPole-v1", worlds),
        peer(gymnax, "gymnax", "CartPole-v1", worlds),
        peer("EnvPool", "envpool", "CartPole-v1", worlds),
    ]
    goals = {gymnasium: ">= 1.8" if worlds == 4096 else ">= 1", "EnvPool": ">= 1"}
    goals |= {gymnax: ">= 1"} if worlds > 1 else {}  # a call for each step of one world: see peers-rolled
    alone = {STEPS: ">= 3.5e7"} if worlds == 4096 else {}
    return _round(Case("CartPole-v1", worlds), *peers, goals=goals, alone=alone, quick=worlds == 4096)


def _classic(env_id: str, worlds: int = 4096) -> Round:
    peers = (peer("gymnax", "gymnax", env_id, worlds), peer("EnvPool", "envpool", env_id, worlds))
    title, goals = f"{env_id}, {world_count(worlds)}", {"gymnax": ">= 1", "EnvPool": ">= 1"}
    return _round(Case(env_id, worlds), *peers, title=title, goals=goals)


def _overcooked(worlds: int, rollout: bool = False) -> Round:
    case = Case("Overcooked-v0", worlds, config={"old_dynamics": True})
    contender = peer("JaxMARL", "jaxmarl", "overcooked", worlds)
    if rollout:
        return _rollout(f"random rollouts, {world_count(worlds)}", case, contender, ">= 20")
    return _round(case, contender, goals={"JaxMARL": ">= 20"} if worlds == 4096 else {})


def _smax(rollout: bool, worlds: int = 1024) -> Round:
    """Return a round of one map with uniform actions, legal or not, against the heuristic."""
    options, title = {"scenario": "2s3z"}, f"2s3z, {world_count(worlds)}"
    case = Case("SMAX-v0", worlds, config=options)
    contender = peer("JaxMARL", "jaxmarl", "HeuristicEnemySMAX", worlds, options=options)
    if rollout:
        return _rollout(f"random rollouts, {title}", case, contender, ">= 20")
    return _round(case, contender, title=title, goals={"JaxMARL": ">= 20"})


def _hanabi(worlds: int) -> Round:
    peers = [peer("HLE loop", "hanabi", "Hanabi-Full", options={"players": 2})]
    if worlds > 1:
        peers.append(peer("JaxMARL", "jaxmarl", "hanabi", worlds))
    goals = {"HLE loop": ">= 100", "JaxMARL": ">= 50"} if worlds == 4096 else {}
    first = Contender(SAMPLED_STEP, "gpu_envs", Case("Hanabi-v0", worlds, "legal actions"))
    return Round(world_count(worlds), (first, *peers), goals)


def _game(env_id: str) -> tuple[Round, Round]:
    """Return two rounds: steps with observations, and random games without them."""

    def pyspiel(name: str, players: str) -> Contender:
        return peer(name, "openspiel", SPIEL[env_id], options={"players": players})

    reads = "pyspiel loop with observations"
    observed = Contender(SAMPLED_STEP, "gpu_envs", Games(env_id, 4096, fused=False))
    bare = Contender(ROLLOUT, "gpu_envs", Games(env_id, 4096, fused=True))
    loops = pyspiel("pyspiel loop", "loop"), pyspiel("pyspiel's random bots", "bots")
    observing, quick = pyspiel(reads, "loop with observations"), env_id == "LeducPoker-v0"
    return (
        Round(f"{env_id}, observed", (observed, observing), {reads: ">= 10"}, quick=quick),
        Round(f"{env_id}, bare", (bare, *loops), {"pyspiel loop": ">= 50"}),
    )


# ---------------------------------------------------------------- trainings and rollouts with policies

SB3 = {"rollout_length": 2048, "num_epochs": 10, "num_minibatches": 256, "learning_rate": 3e-4, "gamma": 0.99}
"""Stable-Baselines3's defaults: 8 worlds of 2048 steps in minibatches of 64."""
JAXMARL = {"rollout_length": 128, "num_epochs": 4, "num_minibatches": 4, "learning_rate": 2.5e-3, "gamma": 0.99}
"""JaxMARL's published settings of IPPO for MPE."""
MANY = {"rollout_length": 25, "num_epochs": 4, "num_minibatches": 4, "hidden_sizes": (64, 64)}
"""PPO with the default environment of TagContinuous: 5 taggers, 100 runners, 10 neighbors observed."""
JAX_IPPO = "IPPO in JAX on JaxMARL"
JAX_WORLDS = (16, 64)
"""Numbers of worlds with the highest speed on two cores, see docs/guides/benchmark.md."""


def _ppo(
    engine: str, variant: str, env_id: str, worlds: int | None, ppo: dict[str, Any] | None, **settings: Any
) -> Contender:
    named = {"kernel": "PPO in kernels", "torch": "PPO in PyTorch", "auto": "PPO"}[engine]
    return Contender(f"{named}, {variant}", "gpu_envs", PPOSubject(env_id, worlds, ppo, engine=engine, **settings))


def _jax_ippo(name: str, worlds: int, threads: int = THREADS) -> Contender:
    module = "benchmarks.peers.inside.jaxmarl_training"
    return peer(name, "jaxmarl", "MPE_simple_spread_v3", worlds, module=module, threads=threads)


_TRAININGS = (
    Round(
        "CartPole-v1, 8 worlds, 1 thread",
        (
            _ppo("kernel", "SB3's settings", "CartPole-v1", 8, SB3),
            _ppo("torch", "SB3's settings", "CartPole-v1", 8, SB3),
            _ppo("auto", "its preset, 64 worlds", "CartPole-v1", None, None),
            peer("Stable-Baselines3 PPO", "sb3", "CartPole-v1", 8, threads=1),
        ),
        {"Stable-Baselines3 PPO": ">= 8"},
    ),
    Round(
        "SimpleSpread-v0, 16 worlds, 1 thread",
        (
            _ppo("kernel", "JaxMARL's settings", "SimpleSpread-v0", 16, JAXMARL),
            _ppo("torch", "JaxMARL's settings", "SimpleSpread-v0", 16, JAXMARL),
            _jax_ippo(JAX_IPPO, 16, threads=1),
        ),
        {JAX_IPPO: ">= 1.3"},
    ),
    Round(
        "SimpleSpread-v0, all cores",
        (
            _ppo("kernel", "128 worlds", "SimpleSpread-v0", 128, JAXMARL, threads=THREADS),
            _ppo("torch", "512 worlds", "SimpleSpread-v0", 512, JAXMARL, threads=THREADS),
            *(_jax_ippo(f"{JAX_IPPO}, {worlds} worlds", worlds) for worlds in JAX_WORLDS),
        ),
        {f"{JAX_IPPO}, {worlds} worlds": ">= 2" for worlds in JAX_WORLDS},
    ),
)


def _many_agents(engine: str, threads: int) -> Contender:
    variant = "1 thread" if threads == 1 else f"{threads} threads"
    return _ppo(engine, variant, "TagContinuous-v0", 32, MANY, threads=threads, env={})


_MANY_TRAININGS = (
    Round(
        "32 worlds",
        (_many_agents("kernel", THREADS), _many_agents("torch", THREADS), _many_agents("torch", 1)),
        alone={STEPS: ">= 1800"},
    ),
    Round(
        "32 worlds, another program keeps a core busy",
        (_many_agents("kernel", THREADS), _many_agents("kernel", 1)),
        {"PPO in kernels, 1 thread": ">= 1"},
        busy_cores=1,
    ),
)


def _rollouts(env_id: str, worlds: int) -> Round:
    """Return rollouts of equal networks: in kernels, and with PyTorch between the steps."""
    contenders = [Contender("core.rollout", "gpu_envs", RolloutSubject(env_id, worlds, "kernels"))]
    for name, interface in (("networks between steps", "torch"), ("rollouts of a training", "collector")):
        for count in sorted({1, THREADS}):
            label = f"{name}, PyTorch with {count} thread{'s' if count > 1 else ''}"
            subject = RolloutSubject(env_id, worlds, interface, torch_threads=count)
            contenders.append(Contender(label, "gpu_envs", subject))
    goals = {contender.name: ">= 4" for contender in contenders[1:]}
    return Round(f"{env_id}, {world_count(worlds)}", tuple(contenders), goals)


# ---------------------------------------------------------------- interfaces


def _interface(name: str, case: Case, interface: str, reuse: bool = False) -> Contender:
    return Contender(name, "interface", replace(case, interface=interface, reuse_buffers=reuse))


def _library_interface(name: str, case: Case, interface: str) -> Contender:
    """Return an interface of another library, which runs in a separate environment."""
    module = "benchmarks.throughput.interface_process"
    task = PeerTask("interfaces", case.env_id, case.num_envs, {"interface": interface}, module=module)
    return Contender(name, "interface", task)


def _all_interfaces(case: Case) -> Round:
    return _round(
        case,
        _interface("core.step, clones", case, "core"),
        _interface("dicts of tensors", case, "dict", reuse=True),
        _interface("dicts of tensors, clones", case, "dict"),
        _interface("rows of tensors", case, "rows", reuse=True),
        _interface("rows of arrays", case, "numpy rows", reuse=True),
        _library_interface("Stable-Baselines3's VecEnv", case, "sb3"),
        _library_interface("TorchRL's EnvBase", case, "torchrl"),
        _library_interface("skrl's interface", case, "skrl"),
        quick=True,
    )


def _dicts(title: str, case: Case) -> tuple[Round, ...]:
    """Return rounds with the target that dictionaries take at most a quarter more time than stacked tensors."""
    return tuple(
        _round(
            replace(case, reuse_buffers=reuse),
            _interface("dicts of tensors", case, "dict", reuse),
            title=f"{title}, {results}",
            goals={"dicts of tensors": "<= 1.25"},
        )
        for reuse, results in ((True, "reused buffers"), (False, "clones"))
    )


def _copies(case: Case) -> Round:
    """Return a round of reused results and clones, which is what ``step`` returns by default."""
    clones = _interface("core.step, clones", case, case.interface)
    return _round(case, clones, title=f"{case.env_id}, {world_count(case.num_envs)}")


_SPREAD, _POLE, _TAG = Case("SimpleSpread-v0", 1), Case("CartPole-v1", 1), many_agents(105)
_ONE_WORLD = (
    Round(
        "SimpleSpread-v0",
        (
            _interface("gpu-envs parallel_env", _SPREAD, "pettingzoo"),
            _mpe2("mpe2's parallel_env", "simple_spread_v3"),
            _interface("gpu-envs gymnasium.make of one agent", _SPREAD, "gymnasium env"),
            Contender(CORE_STEP, "gpu_envs", _SPREAD),
        ),
    ),
    Round(
        "TagContinuous-v0, 105 agents",
        (
            _interface("gpu-envs parallel_env", _TAG, "pettingzoo"),
            _warpdrive_tag(_TAG),
            Contender(CORE_STEP, "gpu_envs", _TAG),
        ),
    ),
    Round(
        "CartPole-v1",
        (
            _interface("gpu-envs gymnasium.make", _POLE, "gymnasium env"),
            peer("Gymnasium's own gymnasium.make", "gymnasium", "CartPole-v1", options={"vector": False}),
            Contender(CORE_STEP, "gpu_envs", _POLE),
        ),
    ),
)

# ---------------------------------------------------------------- all comparisons

COMPARISONS = (
    ComparisonGroup(
        "peers-simple-tag",
        "SimpleTag-v0 compared with other libraries",
        tuple(map(_simple_tag, (1, 64, 1024, 16384))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-simple-spread",
        "SimpleSpread-v0 compared with other libraries",
        tuple(map(_simple_spread, (1, 1024, 16384))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-tag-continuous",
        "TagContinuous-v0 compared with other libraries: 5 % taggers, 10 neighbors observed, no exits",
        tuple(map(_constant_agent_total, (20, 105, 1_000, 10_000))),
        along="agents",
    ),
    ComparisonGroup(
        "tag-continuous-worlds",
        "TagContinuous-v0, 5 taggers and 100 runners, in fewer worlds",
        tuple(_tag_continuous(105, worlds) for worlds in (1, 64)),
    ),
    ComparisonGroup(
        "peers-tag-gridworld",
        "TagGridworld-v0 compared with WarpDrive's NumPy environment",
        _original("TagGridworld-v0", (1, 64, 4096), peer("WarpDrive's NumPy world", "warpdrive", "tag_gridworld")),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-foraging",
        "LevelBasedForaging-v0 compared with lbforaging",
        _original(
            "LevelBasedForaging-v0",
            (1, 4096),
            peer("lbforaging", "lbforaging", "Foraging-8x8-2p-2f-v3", module="benchmarks.peers.inside.grids"),
            ">= 1000",
            quick=True,
        ),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-warehouse",
        "RobotWarehouse-v0 compared with rware",
        _original(
            "RobotWarehouse-v0",
            (1, 4096),
            peer("rware", "rware", "rware-tiny-2ag-v2", module="benchmarks.peers.inside.grids"),
            ">= 1000",
        ),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-overcooked",
        "Overcooked-v0 compared with JaxMARL",
        (_overcooked(1), _overcooked(4096), _overcooked(4096, rollout=True)),
        along="worlds",
    ),
    ComparisonGroup("peers-smax", "SMAX-v0 compared with JaxMARL", (_smax(False), _smax(True))),
    ComparisonGroup(
        "peers-economy",
        "GatherTradeBuild-v0 compared with ai-economist",
        _original(
            "GatherTradeBuild-v0",
            (1, 1024),
            peer("ai-economist", "ai_economist", "layout_from_file/simple_wood_and_stone"),
            ">= 500",
        ),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-hanabi",
        "Hanabi-v0 compared with the Hanabi Learning Environment and JaxMARL",
        tuple(map(_hanabi, (1, 4096))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-cartpole",
        "CartPole-v1 compared with other libraries",
        tuple(map(_cartpole, (1, 64, 4096, 16384))),
        along="worlds",
    ),
    ComparisonGroup("peers-classic", "Classic control compared with other libraries", tuple(map(_classic, CLASSIC))),
    ComparisonGroup("peers-mpe", "Other MPE scenarios compared with EnvPool", tuple(map(_mpe, MPE))),
    ComparisonGroup(
        "peers-rolled",
        "Rollouts without Python between steps, compared with compiled JAX loops",
        tuple(
            _rollout(
                f"{env_id}, {world_count(worlds)}", Case(env_id, worlds), peer(name, library, game, worlds), ">= 1"
            )
            for env_id, name, library, game in (
                ("CartPole-v1", "gymnax", "gymnax", "CartPole-v1"),
                ("SimpleTag-v0", "JaxMARL", "jaxmarl", "MPE_simple_tag_v3"),
            )
            for worlds in (1, 64)
        ),
    ),
    ComparisonGroup(
        "peers-games",
        "Random games compared with OpenSpiel, 4,096 worlds",
        tuple(round_ for env_id in SPIEL for round_ in _game(env_id)),
        unit=GAMES,
    ),
    ComparisonGroup("peers-training", "PPO training, updates included", _TRAININGS, repeats=3, turn=2.5),
    ComparisonGroup(
        "training-many-agents",
        "PPO training on TagContinuous-v0, 5 taggers and 100 runners",
        _MANY_TRAININGS,
        repeats=3,
        turn=1.0,
    ),
    ComparisonGroup(
        "policy-rollouts",
        "Rollouts with networks of two layers of 64, stored",
        (_rollouts("SimpleTag-v0", 16384),),
        repeats=5,
        turn=1.0,
    ),
    ComparisonGroup(
        "interfaces-all", "Interfaces to SimpleSpread-v0", (_all_interfaces(Case("SimpleSpread-v0", 4096)),)
    ),
    ComparisonGroup(
        "interfaces-dicts",
        "Dictionaries of tensors compared with core.step",
        (
            *_dicts("SimpleTag-v0, 4,096 worlds", Case("SimpleTag-v0", 4096)),
            *_dicts("TagContinuous-v0 5 + 100, 1,024 worlds", Case("TagContinuous-v0", 1024, config=NO_EXITS)),
        ),
    ),
    ComparisonGroup(
        "interfaces-copies",
        "Reused results compared with clones",
        (
            _copies(Case("Overcooked-v0", 4096, config={"old_dynamics": True})),
            _copies(Case("Hanabi-v0", 4096, "legal actions")),
        ),
    ),
    ComparisonGroup("interfaces-one", "One world through PettingZoo and Gymnasium", _ONE_WORLD),
)
