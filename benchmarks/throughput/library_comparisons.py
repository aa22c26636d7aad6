"""Comparisons with peers and bounds as data: who plays whom, on what, and what is promised of it."""

from benchmarks.cases import Case, crowd
from benchmarks.contest import GAMES, MICROSECONDS, STEPS, Contest, Heat, mpe2, ours, peer, warpdrive_tag, worlds_of
from benchmarks.contests_of_doors import DOORS
from benchmarks.entrants import Batch, Entrant, Learner
from benchmarks.games import SPIEL
from benchmarks.origin import THREADS


def _simple_tag(worlds: int) -> Heat:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_tag_v3", worlds)]
    if worlds == 1:
        peers.append(mpe2("mpe2", "simple_tag_v3"))
    if worlds >= 64:
        peers.append(peer("VMAS as shipped", "vmas", "simple_tag", worlds))
        peers.append(peer("VMAS, 1 substep", "vmas", "simple_tag", worlds, options={"substeps": 1}))
    goals = {"the C step": ">= 0.45", "JaxMARL": ">= 20", "VMAS as shipped": ">= 100"} if worlds == 16384 else {}
    alone = {MICROSECONDS: "<= 15"} if worlds == 1 else {}
    mine = ours(Case("SimpleTag-v0", worlds), bound=True)
    return Heat(worlds_of(worlds), (*mine, *peers), goals, alone, quick=worlds == 1024)


def _simple_spread(worlds: int) -> Heat:
    peers = [peer("JaxMARL", "jaxmarl", "MPE_simple_spread_v3", worlds)]
    if worlds == 1:
        peers.append(mpe2("mpe2", "simple_spread_v3"))
    alone = {STEPS: ">= 1e7"} if worlds == 16384 else {}
    return Heat(worlds_of(worlds), (*ours(Case("SimpleSpread-v0", worlds)), *peers), alone=alone)


def _cartpole(worlds: int) -> Heat:
    gymnasium, gymnax = "Gymnasium's own", "gymnax"
    peers = (
        peer(gymnasium, "gymnasium", "CartPole-v1", worlds),
        peer(gymnax, "gymnax", "CartPole-v1", worlds),
    )
    goals = {gymnasium: ">= 1.8" if worlds == 4096 else ">= 1"}
    goals |= {gymnax: ">= 1"} if worlds > 1 else {}  # a call for each step of one world: see peers-rolled
    alone = {STEPS: ">= 3.5e7"} if worlds == 4096 else {}
    mine = ours(Case("CartPole-v1", worlds))
    return Heat(worlds_of(worlds), (*mine, *peers), goals, alone, quick=worlds == 4096)


def _rolled(env_id: str, worlds: int, name: str, library: str, game: str) -> Heat:
    """Against a compiled loop of JAX in its own way: many steps with random actions, and no Python between them."""
    mine = Entrant("core.play_random", "ours", Case(env_id, worlds, "random play"))
    return Heat(f"{env_id}, {worlds_of(worlds)}", (mine, peer(name, library, game, worlds)), {name: ">= 1"})


def _tag_continuous(agents: int, worlds: int, title: str) -> Heat:
    case, goal = crowd(agents, worlds), (agents, worlds) == (105, 1024)
    peers = (warpdrive_tag(case),) if agents < 1000 else ()
    goals = {"the C step": ">= 0.6"} if goal else {}
    return Heat(title, (*ours(case, bound=agents == 105), *peers), goals, quick=goal)


def _crowd(agents: int) -> Heat:
    """As many agents in all, whatever a world has."""
    worlds = max(1, 107_520 // agents)
    return _tag_continuous(agents, worlds, f"{agents:,} agents, {worlds_of(worlds)}")


def _tag_gridworld(worlds: int) -> Heat:
    warpdrive = peer("WarpDrive's NumPy world", "warpdrive", "tag_gridworld")
    return Heat(worlds_of(worlds), (*ours(Case("TagGridworld-v0", worlds)), warpdrive))


def _game(env_id: str) -> tuple[Heat, Heat]:
    """A step that shows as much against a loop that reads as much; and bare play."""

    def pyspiel(name: str, players: str) -> Entrant:
        return peer(name, "openspiel", SPIEL[env_id], options={"players": players})

    reads = "pyspiel loop with observations"
    ours = Entrant("core.step(core.sample_actions())", "ours", Batch(env_id, 4096, fused=False))
    bare = Entrant("core.play_random", "ours", Batch(env_id, 4096, fused=True))
    theirs = pyspiel("pyspiel loop", "loop"), pyspiel("pyspiel's random bots", "bots")
    quick = env_id == "LeducPoker-v0"
    return (
        Heat(f"{env_id}, observed", (ours, pyspiel(reads, "loop with observations")), {reads: ">= 10"}, quick=quick),
        Heat(f"{env_id}, bare", (bare, *theirs), {"pyspiel loop": ">= 50"}),
    )


SB3 = {"rollout_length": 2048, "epochs": 10, "minibatches": 256, "learning_rate": 3e-4, "gamma": 0.99}
"""Stable-Baselines3's defaults: 8 worlds of 2048 steps in minibatches of 64."""
JAXMARL = {"rollout_length": 128, "epochs": 4, "minibatches": 4, "learning_rate": 2.5e-3, "gamma": 0.99}
"""JaxMARL's published settings of IPPO for MPE."""

SPREAD, JAX_IPPO, SPREAD_WORLDS = "MPE_simple_spread_v3", "IPPO in JAX on JaxMARL", 512

_LEARNING = (
    Heat(
        "CartPole-v1, 8 worlds, 1 thread",
        (
            Entrant("PPO with SB3's settings", "ours", Learner("CartPole-v1", 8, SB3)),
            Entrant("PPO with its preset, 64 worlds", "ours", Learner("CartPole-v1", None, None)),
            peer("Stable-Baselines3 PPO", "sb3", "CartPole-v1", 8, threads=1),
        ),
    ),
    Heat(
        "SimpleSpread-v0, 16 worlds, 1 thread",
        (
            Entrant("PPO with JaxMARL's settings", "ours", Learner("SimpleSpread-v0", 16, JAXMARL)),
            peer(JAX_IPPO, "jaxmarl", SPREAD, 16, module="jaxmarl_training", threads=1),
        ),
    ),
    Heat(
        f"SimpleSpread-v0, all cores, worlds as each likes: ours {SPREAD_WORLDS}",
        (
            Entrant(
                f"PPO with JaxMARL's network, epochs and minibatches, {SPREAD_WORLDS} worlds",
                "ours",
                Learner("SimpleSpread-v0", SPREAD_WORLDS, JAXMARL, THREADS),
            ),
            peer(f"{JAX_IPPO}, 16 worlds", "jaxmarl", SPREAD, 16, module="jaxmarl_training"),
        ),
        {f"{JAX_IPPO}, 16 worlds": ">= 1"},
    ),
)


CONTESTS = (
    Contest(
        "peers-simple-tag",
        "SimpleTag-v0 beside its peers",
        "SimpleTag-v0",
        tuple(map(_simple_tag, (1, 64, 1024, 16384))),
        along="worlds",
    ),
    Contest(
        "peers-simple-spread",
        "SimpleSpread-v0 beside its peers",
        "SimpleSpread-v0",
        tuple(map(_simple_spread, (1, 1024, 16384))),
        along="worlds",
    ),
    Contest(
        "peers-tag-continuous",
        "TagContinuous-v0 beside its peers: 5 % taggers, 10 neighbours seen, nobody exits",
        "TagContinuous-v0",
        tuple(map(_crowd, (20, 105, 1_000, 10_000))),
        along="agents",
    ),
    Contest(
        "tag-continuous-worlds",
        "TagContinuous-v0, 5 taggers and 100 runners, in fewer worlds",
        "TagContinuous-v0",
        tuple(_tag_continuous(105, worlds, worlds_of(worlds)) for worlds in (1, 64)),
    ),
    Contest(
        "peers-tag-gridworld",
        "TagGridworld-v0 beside WarpDrive's NumPy world",
        "TagGridworld-v0",
        tuple(map(_tag_gridworld, (1, 64, 4096))),
        along="worlds",
    ),
    Contest(
        "peers-cartpole",
        "CartPole-v1 beside its peers",
        "CartPole-v1",
        tuple(map(_cartpole, (1, 64, 4096, 16384))),
        along="worlds",
    ),
    Contest(
        "peers-rolled",
        "Steps without Python between them, beside the compiled loops of JAX",
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
    Contest(
        "peers-games",
        "Random games beside OpenSpiel, 4,096 worlds",
        "LeducPoker-v0",
        tuple(heat for env_id in SPIEL for heat in _game(env_id)),
        unit=GAMES,
    ),
    Contest("peers-training", "PPO, learning included", "CartPole-v1", _LEARNING, rounds=3, turn=5.0),
    *DOORS,
)
