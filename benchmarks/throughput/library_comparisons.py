"""Comparisons with other libraries and bounds as data."""

from benchmarks.throughput.cases import Case, many_agents
from benchmarks.throughput.comparisons import (
    GAMES,
    MICROSECONDS,
    STEPS,
    ComparisonGroup,
    Round,
    core_contenders,
    envpool,
    envpool_mpe,
    mpe2,
    peer,
    warpdrive_tag,
    world_count,
)
from benchmarks.throughput.contenders import Batch, Contender
from benchmarks.throughput.interface_comparisons import INTERFACE_COMPARISONS
from benchmarks.throughput.random_games import SPIEL
from benchmarks.throughput.training_comparisons import TRAINING_COMPARISONS

GRIDS = "benchmarks.peers.inside.grids"
"""Module that plays lbforaging and rware."""


def _simple_tag(worlds: int) -> Round:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_tag_v3", worlds), envpool_mpe("simple_tag", worlds)]
    if worlds == 1:
        peers.append(mpe2("mpe2", "simple_tag_v3"))
    if worlds >= 64:
        peers.append(peer("VMAS as shipped", "vmas", "simple_tag", worlds))
        peers.append(peer("VMAS, 1 substep", "vmas", "simple_tag", worlds, options={"substeps": 1}))
    goals = (
        {"the C step": ">= 0.45", "JaxMARL": ">= 20", "VMAS as shipped": ">= 100", "EnvPool": ">= 1"}
        if worlds == 16384
        else {}
    )
    alone = {MICROSECONDS: "<= 15"} if worlds == 1 else {}
    mine = core_contenders(Case("SimpleTag-v0", worlds), bound=True)
    return Round(world_count(worlds), (*mine, *peers), goals, alone, quick=worlds == 1024)


def _simple_spread(worlds: int) -> Round:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_spread_v3", worlds), envpool_mpe("simple_spread", worlds)]
    if worlds == 1:
        peers.append(mpe2("mpe2", "simple_spread_v3"))
    alone = {STEPS: ">= 1e7"} if worlds == 16384 else {}
    return Round(world_count(worlds), (*core_contenders(Case("SimpleSpread-v0", worlds)), *peers), alone=alone)


def _cartpole(worlds: int) -> Round:
    gymnasium, gymnax = "Gymnasium's own", "gymnax"
    peers = (
        peer(gymnasium, "gymnasium", "CartPole-v1", worlds),
        peer(gymnax, "gymnax", "CartPole-v1", worlds),
        envpool("CartPole-v1", worlds),
    )
    goals = {gymnasium: ">= 1.8" if worlds == 4096 else ">= 1"}
    goals |= {"EnvPool": ">= 1"}
    goals |= {gymnax: ">= 1"} if worlds > 1 else {}  # a call for each step of one world: see peers-rolled
    alone = {STEPS: ">= 3.5e7"} if worlds == 4096 else {}
    mine = core_contenders(Case("CartPole-v1", worlds))
    return Round(world_count(worlds), (*mine, *peers), goals, alone, quick=worlds == 4096)


CLASSIC = ("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0")
"""Environments of Gymnasium with equal rules in EnvPool, without CartPole; its Pendulum exceeds the largest speed."""


def _classic(env_id: str, worlds: int = 4096) -> Round:
    peers = (peer("gymnax", "gymnax", env_id, worlds), envpool(env_id, worlds))
    goals = {"gymnax": ">= 1", "EnvPool": ">= 1"}
    return Round(f"{env_id}, {world_count(worlds)}", (*core_contenders(Case(env_id, worlds)), *peers), goals)


SCENARIOS = {
    "Simple-v0": "simple",
    "SimpleAdversary-v0": "simple_adversary",
    "SimpleCrypto-v0": "simple_crypto",
    "SimplePush-v0": "simple_push",
    "SimpleReference-v0": "simple_reference",
    "SimpleSpeakerListener-v0": "simple_speaker_listener",
    "SimpleWorldComm-v0": "simple_world_comm",
}
"""Scenarios of MPE, apart from those with their own groups."""


def _mpe(env_id: str, worlds: int = 4096) -> Round:
    contenders = (*core_contenders(Case(env_id, worlds)), envpool_mpe(SCENARIOS[env_id], worlds))
    return Round(f"{env_id}, {world_count(worlds)}", contenders, {"EnvPool": ">= 1"})


def _rolled(env_id: str, worlds: int, name: str, library: str, game: str) -> Round:
    """Return a round of random rollouts against a compiled JAX loop, without Python between steps."""
    mine = Contender("core.random_rollout", "gpu_envs", Case(env_id, worlds, "random play"))
    return Round(f"{env_id}, {world_count(worlds)}", (mine, peer(name, library, game, worlds)), {name: ">= 1"})


def _tag_continuous(agents: int, worlds: int, title: str) -> Round:
    case, goal = many_agents(agents, worlds), (agents, worlds) == (105, 1024)
    peers = (warpdrive_tag(case),) if agents < 1000 else ()
    goals = {"the C step": ">= 0.6"} if goal else {}
    return Round(title, (*core_contenders(case, bound=agents == 105), *peers), goals, quick=goal)


def _constant_agent_total(agents: int) -> Round:
    """Return a round with a constant total number of agents."""
    worlds = max(1, 107_520 // agents)
    return _tag_continuous(agents, worlds, f"{agents:,} agents, {world_count(worlds)}")


def _tag_gridworld(worlds: int) -> Round:
    warpdrive = peer("WarpDrive's NumPy world", "warpdrive", "tag_gridworld")
    return Round(world_count(worlds), (*core_contenders(Case("TagGridworld-v0", worlds)), warpdrive))


def _foraging(worlds: int) -> Round:
    original = "lbforaging"
    theirs = peer(original, "lbforaging", "Foraging-8x8-2p-2f-v3", module=GRIDS)
    goals = {original: ">= 1000"} if worlds == 4096 else {}
    return Round(
        world_count(worlds), (*core_contenders(Case("LevelBasedForaging-v0", worlds)), theirs), goals, quick=bool(goals)
    )


def _warehouse(worlds: int) -> Round:
    original = "rware"
    theirs = peer(original, "rware", "rware-tiny-2ag-v2", module=GRIDS)
    goals = {original: ">= 1000"} if worlds == 4096 else {}
    return Round(world_count(worlds), (*core_contenders(Case("RobotWarehouse-v0", worlds)), theirs), goals)


def _economy(worlds: int) -> Round:
    original = "ai-economist"
    theirs = peer(original, "ai_economist", "layout_from_file/simple_wood_and_stone")
    goals = {original: ">= 500"} if worlds == 1024 else {}
    return Round(world_count(worlds), (*core_contenders(Case("GatherTradeBuild-v0", worlds)), theirs), goals)


def _overcooked(worlds: int) -> Round:
    goals = {"JaxMARL": ">= 20"} if worlds == 4096 else {}
    theirs = peer("JaxMARL", "jaxmarl", "overcooked", worlds)
    case = Case("Overcooked-v0", worlds, config={"old_dynamics": True})
    return Round(world_count(worlds), (*core_contenders(case), theirs), goals)


def _overcooked_rollout(worlds: int = 4096) -> Round:
    """Return a round of random rollouts against JaxMARL's compiled loop, both without Python between steps."""
    case = Case("Overcooked-v0", worlds, "random play", config={"old_dynamics": True})
    mine = Contender("core.random_rollout", "gpu_envs", case)
    title = f"random rollouts, {world_count(worlds)}"
    return Round(title, (mine, peer("JaxMARL", "jaxmarl", "overcooked", worlds)), {"JaxMARL": ">= 20"})


def _smax(scenario: str, worlds: int) -> Round:
    """Return a round of one map with uniform actions, legal or not, against the heuristic."""
    case = Case("SMAX-v0", worlds, config={"scenario": scenario})
    theirs = peer("JaxMARL", "jaxmarl", "HeuristicEnemySMAX", worlds, options={"scenario": scenario})
    goals = {"JaxMARL": ">= 20"} if worlds == 1024 and scenario == "2s3z" else {}
    return Round(f"{scenario}, {world_count(worlds)}", (*core_contenders(case), theirs), goals)


def _smax_rollout(worlds: int = 1024) -> Round:
    """Return a round of random rollouts against JaxMARL's compiled loop, both without Python between steps."""
    case = Case("SMAX-v0", worlds, "random play", config={"scenario": "2s3z"})
    mine = Contender("core.random_rollout", "gpu_envs", case)
    theirs = peer("JaxMARL", "jaxmarl", "HeuristicEnemySMAX", worlds, options={"scenario": "2s3z"})
    return Round(f"random rollouts, 2s3z, {world_count(worlds)}", (mine, theirs), {"JaxMARL": ">= 20"})


def _hanabi(worlds: int) -> Round:
    original = "HLE loop"
    peers = [peer(original, "hanabi", "Hanabi-Full", options={"players": 2})]
    if worlds > 1:
        peers.append(peer("JaxMARL", "jaxmarl", "hanabi", worlds))
    goals = {original: ">= 100", "JaxMARL": ">= 50"} if worlds == 4096 else {}
    mine = Contender("core.step(core.sample_actions())", "gpu_envs", Case("Hanabi-v0", worlds, "legal actions"))
    return Round(world_count(worlds), (mine, *peers), goals)


def _game(env_id: str) -> tuple[Round, Round]:
    """Return two rounds: steps with observations, and random games without them."""

    def pyspiel(name: str, players: str) -> Contender:
        return peer(name, "openspiel", SPIEL[env_id], options={"players": players})

    reads = "pyspiel loop with observations"
    observed = Contender("core.step(core.sample_actions())", "gpu_envs", Batch(env_id, 4096, fused=False))
    bare = Contender("core.random_rollout", "gpu_envs", Batch(env_id, 4096, fused=True))
    theirs = pyspiel("pyspiel loop", "loop"), pyspiel("pyspiel's random bots", "bots")
    observed_spiel = pyspiel(reads, "loop with observations")
    quick = env_id == "LeducPoker-v0"
    return (
        Round(f"{env_id}, observed", (observed, observed_spiel), {reads: ">= 10"}, quick=quick),
        Round(f"{env_id}, bare", (bare, *theirs), {"pyspiel loop": ">= 50"}),
    )


COMPARISONS = (
    ComparisonGroup(
        "peers-simple-tag",
        "SimpleTag-v0 compared with other libraries",
        "SimpleTag-v0",
        tuple(map(_simple_tag, (1, 64, 1024, 16384))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-simple-spread",
        "SimpleSpread-v0 compared with other libraries",
        "SimpleSpread-v0",
        tuple(map(_simple_spread, (1, 1024, 16384))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-tag-continuous",
        "TagContinuous-v0 compared with other libraries: 5 % taggers, 10 neighbors observed, no exits",
        "TagContinuous-v0",
        tuple(map(_constant_agent_total, (20, 105, 1_000, 10_000))),
        along="agents",
    ),
    ComparisonGroup(
        "tag-continuous-worlds",
        "TagContinuous-v0, 5 taggers and 100 runners, in fewer worlds",
        "TagContinuous-v0",
        tuple(_tag_continuous(105, worlds, world_count(worlds)) for worlds in (1, 64)),
    ),
    ComparisonGroup(
        "peers-tag-gridworld",
        "TagGridworld-v0 compared with WarpDrive's NumPy environment",
        "TagGridworld-v0",
        tuple(map(_tag_gridworld, (1, 64, 4096))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-foraging",
        "LevelBasedForaging-v0 compared with lbforaging",
        "LevelBasedForaging-v0",
        tuple(map(_foraging, (1, 4096))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-warehouse",
        "RobotWarehouse-v0 compared with rware",
        "RobotWarehouse-v0",
        tuple(map(_warehouse, (1, 4096))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-overcooked",
        "Overcooked-v0 compared with JaxMARL",
        "Overcooked-v0",
        (*map(_overcooked, (1, 4096)), _overcooked_rollout()),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-smax",
        "SMAX-v0 compared with JaxMARL",
        "SMAX-v0",
        (_smax("2s3z", 1024), _smax_rollout()),
    ),
    ComparisonGroup(
        "peers-economy",
        "GatherTradeBuild-v0 compared with ai-economist",
        "GatherTradeBuild-v0",
        tuple(map(_economy, (1, 1024))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-hanabi",
        "Hanabi-v0 compared with the Hanabi Learning Environment and JaxMARL",
        "Hanabi-v0",
        tuple(map(_hanabi, (1, 4096))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-cartpole",
        "CartPole-v1 compared with other libraries",
        "CartPole-v1",
        tuple(map(_cartpole, (1, 64, 4096, 16384))),
        along="worlds",
    ),
    ComparisonGroup(
        "peers-classic",
        "Classic control compared with other libraries",
        "Acrobot-v1",
        tuple(map(_classic, CLASSIC)),
    ),
    ComparisonGroup(
        "peers-mpe",
        "Other MPE scenarios compared with EnvPool",
        "Simple-v0",
        tuple(map(_mpe, SCENARIOS)),
    ),
    ComparisonGroup(
        "peers-rolled",
        "Rollouts without Python between steps, compared with compiled JAX loops",
        "CartPole-v1",
        tuple(
            _rolled(env_id, worlds, *theirs)
            for env_id, *theirs in (
                ("CartPole-v1", "gymnax", "gymnax", "CartPole-v1"),
                ("SimpleTag-v0", "JaxMARL", "jaxmarl", "MPE_simple_tag_v3"),
            )
            for worlds in (1, 64)
        ),
    ),
    ComparisonGroup(
        "peers-games",
        "Random games compared with OpenSpiel, 4,096 worlds",
        "LeducPoker-v0",
        tuple(round_ for env_id in SPIEL for round_ in _game(env_id)),
        unit=GAMES,
    ),
    *TRAINING_COMPARISONS,
    *INTERFACE_COMPARISONS,
)
