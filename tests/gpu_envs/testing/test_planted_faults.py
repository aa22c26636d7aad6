"""Faults that authors make, planted into an environment: what each check finds and says, and what none can find."""

import re
import subprocess
import sys
import time
from functools import cache

import pytest
import toy
from planted import ENV_ID, planted_module, planted_source

from gpu_envs.cli import main
from gpu_envs.errors import ConfigError, ConformanceError, GpuEnvsError
from gpu_envs.testing import conformance, env_checker, memory_check
from gpu_envs.testing.memory_check import check_memory
from gpu_envs.testing.reference_checks import Subject

slow = pytest.mark.slow
STEPS, WORLDS = 45, 6

# Places in the source after which statements are planted; they run where params.fault is the number of the fault.
MOVE = "    def move(params: Params, state: State, io: IO, env: int, agent: int):\n"
MOVED = "            state.energy[env, agent] = state.energy[env, agent] - 0.02\n"
GROWN = "            state.food[env] = philox.below(word[0], params.length + 1)\n"
EATEN = "            io.reward[env, agent] = reward\n"
SEEN = "        io.action_mask[env, agent, 2] = cell < params.length\n"
CENTRAL = "        io.global_state[env, agent] = state.energy[env, agent]\n"
PLACED = "        state.energy[env, agent] = 0.1 + philox.unit(philox.bits(rng, agent, philox.RESET, 1)[0])\n"

SIBLING = "(agent + 1) % num_agents"
TENSORS, STATE, WORLD = env_checker.check_tensors, conformance.check_state, conformance.check_worlds
ORDER, SEEDS = conformance.check_schedules, conformance.check_seeds

FAULTS = {
    "observation outside of its box": (
        SEEN, "if io.step[env] > 30:\n    io.obs[env, agent, 1] = 1.5", TENSORS,
        r"lie in the observation space.*; step 31: obs\[1\] of walker_. in world . is 1\.5, expected \[0, 1\]"),
    "observation that is NaN": (
        SEEN, "io.obs[env, agent, 2] = wp.sqrt(-1.0)", TENSORS,
        r"observations are finite; step 0: obs\[2\] of walker_0 in world 0 is -?nan, expected \[0, 1\]"),
    "last observation outside of its box": (
        SEEN, "if not io.alive[env, agent] or state.energy[env, agent] <= 0.0:\n    io.obs[env, agent, 1] = -1.0",
        TENSORS, r"(final_)?obs\[1\] of walker_. in world . is -1, expected \[0, 1\]"),
    "reward that is NaN": (
        EATEN, "io.reward[env, agent] = wp.log(-1.0)", TENSORS,
        r"rewards are finite; step 1: reward of walker_0 in world 0 is -?nan"),
    "reward that is infinite": (
        EATEN, "if io.step[env] == 33:\n    io.reward[env, agent] = 1.0 / reward", TENSORS,
        r"rewards are finite; step 33: reward of walker_. in world . is inf"),
    "global state that is NaN": (
        CENTRAL, "io.global_state[env, agent] = wp.sqrt(-1.0)", TENSORS, r"state\(\) is \(E, S\) and finite"),
    "no legal action": (
        SEEN, "if cell == 0:\n    io.action_mask[env, agent, 0] = False\n    io.action_mask[env, agent, 2] = False",
        TENSORS, "a living agent has a legal action; step .+: action_mask of walker_. in world ."),
    "state beyond its range": (
        MOVED, "if io.step[env] > 25:\n    state.cell[env, agent] = state.cell[env, agent] + step", STATE,
        r"State keeps to its declared ranges; state\.cell: expected values in \[0, 4\], got (5|-1) in world \d"),
    "integer that overflows": (
        GROWN, "state.food[env] = 2147483647 * (state.food[env] + 2)", STATE,
        r"state\.food: expected values in \[0, 4\], got -?\d+ in world \d"),
    "state that is never initialized": (
        PLACED, "state.cell[env, agent] = (state.cell[env, agent] + int(state.meals[env, agent])) % 5", SEEDS,
        r"reset\(seed\) starts the same episodes, whatever was played before; step 0: obs"),
    "read of a sibling": (
        MOVED, f"state.cell[env, agent] = (state.cell[env, agent] + state.cell[env, {SIBLING}]) % 5", ORDER,
        r"no agent reads what a sibling writes.*; step 1: phase move \(over agents\): State\.cell of walker_"),
    "read of a sibling late in an episode": (
        MOVED, f"if io.step[env] > 30:\n    state.cell[env, agent] = state.cell[env, {SIBLING}]", ORDER,
        r"no agent reads what a sibling writes.*; step 31: phase move \(over agents\): State\.cell of walker_"),
    "read of a sibling that no observation shows": (
        MOVED, f"state.meals[env, agent] = state.meals[env, {SIBLING}] + 1.0", ORDER,
        r"no agent reads what a sibling writes.*; step 1: phase move \(over agents\): State\.meals of walker_"),
    "read of a sibling's observation": (
        SEEN, f"io.obs[env, agent, 2] = 0.5 * io.obs[env, {SIBLING}, 1]", ORDER,
        r"phase observe \(over agents\): io\.obs\[2\] of walker_. in world \d depends on the order"),
    "write of a sibling": (
        MOVED, "state.meals[env, 0] = float(agent)", ORDER,
        r"no agent writes what belongs to a sibling; step 1: phase move \(over agents\): "
        r"walker_1 writes State\.meals of walker_0 in world 0"),
    "write one beyond a row of io.obs": (
        SEEN, "if agent == 0:\n    io.obs[env, agent, io.obs.shape[2]] = 0.7", ORDER,
        r"no agent writes what belongs to a sibling; step 1: phase observe \(over agents\): "
        r"walker_0 writes io\.obs\[0\] of walker_1 in world 0.*an index beyond the end of a row is in the next row"),
    "read of another world": (
        GROWN, "state.food[env] = state.food[wp.max(env - 1, 0)]", WORLD,
        r"world 1 plays the same alone and among many.*; phase grow: State\.food in world 1 is another"),
    "write of another world": (
        GROWN, "state.food[(env + 1) % state.food.shape[0]] = 4", WORLD,
        r"world \d plays the same alone and among many"),
    "random numbers by the place in the batch": (
        GROWN, "local = stream(io, env)\nlocal.world = wp.uint32(env)\n"
        "state.food[env] = philox.below(philox.bits(local, 0, philox.STEP, 0)[0], 5)", WORLD,
        r"world \d plays the same alone and among many.*; phase grow: State\.food in world \d is another"),
    "dependence on the number of worlds": (
        GROWN, "state.food[env] = state.food.shape[0] % 4", WORLD,
        r"world 0 plays the same alone and among many.*; phase grow: State\.food in world 0 is another"),
}  # fmt: skip

HARMLESS = {
    "rewards of agents that have left": (
        MOVE, "if not io.alive[env, agent]:\n    io.reward[env, agent] = 1.0", env_checker.check_ends, None),
    "both ends at once": (
        EATEN, "if io.step[env] == 5:\n    io.terminated[env, agent] = True\n    io.truncated[env, agent] = True",
        env_checker.check_ends, None),
    "a limit of the rules that should truncate": (
        EATEN, "if io.step[env] == 20:\n    io.terminated[env, agent] = True", TENSORS, r", 0 agents truncated"),
    "a mask that forbids a legal action": (
        SEEN, "io.action_mask[env, agent, 2] = False", TENSORS, None),
    "a draw that ignores the seed": (
        GROWN, "state.food[env] = 3", SEEDS, None),
}  # fmt: skip
"""Faults that the framework corrects, or that are no violation but wrong rules, which only a reference can tell."""


@cache
def faulty_source():
    """Return the source of the walk with all faults; ``Config.fault`` is the number of the one that is active."""
    changes = {
        "    gain: float  # energy of a meal\n": "    gain: float  # energy of a meal\n    fault: int  # number\n",
        '"gain": 0.05}': '"gain": 0.05, "fault": config.fault}',
        "    num_agents: int = setting(3, ge=1)\n": "    num_agents: int = setting(3, ge=1)\n    fault: int = 0\n",
    }
    for number, (anchor, statements, *_) in enumerate((*FAULTS.values(), *HARMLESS.values()), start=1):
        indent = re.match(" *", anchor)[0] + (4 * " " if anchor.endswith(":\n") else "")
        body = "".join(f"{indent}    {line}\n" for line in statements.split("\n"))
        changes[anchor] = changes.get(anchor, anchor) + f"{indent}if params.fault == {number}:\n{body}"
    return planted_source("walk", *changes.items())


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Return the module with all faults, which share one compilation."""
    folder = tmp_path_factory.mktemp("faults")
    return planted_module(folder, faulty_source())


def subject_of(walk, fault):
    number = 0 if fault is None else 1 + [*FAULTS, *HARMLESS].index(fault)
    config = walk.Config(fault=number)
    return Subject(ENV_ID, config, walk.build(config), WORLDS, STEPS)


QUICK = ("observation outside of its box", "observation that is NaN", "no legal action", "state beyond its range",
         "state that is never initialized", "read of another world", "write one beyond a row of io.obs",
         "read of a sibling that no observation shows", "random numbers by the place in the batch")  # fmt: skip


@pytest.mark.parametrize("fault", [pytest.param(name, marks=[slow] * (name not in QUICK)) for name in FAULTS])
def test_fault_is_found_and_named(walk, monkeypatch, fault):
    *_, law, words = FAULTS[fault]
    toy.announce(monkeypatch, ENV_ID, host=walk)
    with pytest.raises(ConformanceError, match=f"^{ENV_ID}: .*{words}"):
        law(subject_of(walk, fault))


@pytest.mark.slow
@pytest.mark.parametrize("fault", HARMLESS)
def test_what_no_check_can_find_passes(walk, fault):
    *_, law, words = HARMLESS[fault]
    reached = law(subject_of(walk, fault))
    assert words is None or re.search(words, reached)


@pytest.mark.slow
@pytest.mark.parametrize("law", [TENSORS, STATE, WORLD, ORDER, SEEDS])
def test_environment_without_a_fault_passes(walk, law):
    law(subject_of(walk, None))


# ---------------------------------------------------------------- turns and definitions

CHOICES = "spaces.Discrete(3) for"


@pytest.mark.parametrize(
    ("base", "old", "new", "law", "words"),
    [
        ("turns", "== agent, 1.0, -1.0)", "== agent, 0.5, -1.0)", TENSORS,
         r"zero_sum: the rewards of all roles sum to 0; step \d+: the sum of rewards in world \d is -0\.5"),
        ("turns", "io.to_move[env, agent] = moves", "io.to_move[env, agent] = False", TENSORS,
         "at least one agent is to move; step 0: to_move in world 0"),
        ("turns", "= state.stones[env, heap] > stones", "= False", TENSORS,
         "a living agent has a legal action; step 0: .* is False everywhere; to move: player_"),
        ("walk", '"gain": 0.05', '"gain": 0.05 + np.random.random()', env_checker.check_build,
         "equal settings build equal environments; params: "),
        ("walk", CHOICES, "spaces.Box(-1, 1, (1,)) for", env_checker.check_definition,
         "action spaces and rules.continuous agree"),
    ],
)  # fmt: skip
def test_fault_of_a_game_or_a_definition_is_named(tmp_path, monkeypatch, base, old, new, law, words):
    numpy = ("import warp as wp\n", "import numpy as np\nimport warp as wp\n")
    module = planted_module(tmp_path, planted_source(base, (old, new), numpy))
    toy.announce(monkeypatch, ENV_ID, host=module)
    config = module.Config()
    with pytest.raises(ConformanceError, match=f"^{ENV_ID}: .*{words}"):
        law(Subject(ENV_ID, config, module.build(config), WORLDS, STEPS))


# ---------------------------------------------------------------- faults that end a process

CELL = "        cell = state.cell[env, agent]\n"
ALIAS = "cells = state.cell\n        cell = cells[env, agent + 3]"
LOOP = "            while state.cell[env, agent] >= 0:\n                reward += 0.0\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("io.obs[env, agent, 3 + other]", "io.obs[env, agent, 4 + other]",
         r"rules\.py:\d+, observe: io\.obs\[env, agent, 4 \+ other\]: index 6 of axis 2, which has size 6; "
         r"phase observe \(at the start\), world 0, step 0"),
        ('"energy": (count,)', '"energy": (count - 1,)', r"reset_agent: .*index 2 of axis 1, which has size 2; "),
        ("global_state_size=count", "global_state_size=count - 1", r"central: .*index 2 of axis 1, which has size 2"),
        ("io.step[env] % 3", "io.step[env] % (27 - io.step[env])",
         r"integers are not divided by zero; .*rules\.py:\d+, grow: .*its divisor is 0; phase grow, world 0, step 27"),
        (EATEN, EATEN + "            count = int(3)\n            count //= io.step[env] - 9\n",
         r"eat: count //= io\.step\[env\] - 9: its divisor is 0; phase eat, world 0, step 9"),
        (CELL, CELL.replace("cell = state.cell[env, agent]", ALIAS),
         r"the kernels end; phase observe \(at the start\), world 0, step 0: SIG\w+ has ended the process"),
        (EATEN, EATEN + LOOP, r"loops end; .*rules\.py:\d+, eat: .*`while` has run [\d,]+ times; phase eat, world 0"),
    ],
)  # fmt: skip
def test_fault_that_ends_a_process_is_named(tmp_path, monkeypatch, old, new, words):
    name = f"fatal_{tmp_path.name}"
    lines = f'\n\nimport gpu_envs\ngpu_envs.register("{ENV_ID}", config=Config, build=build)\n'
    text = planted_source("walk", (old, new)).replace('key=f"', f'key=f"{name} ')
    (tmp_path / f"{name}.py").write_text(text + lines)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GpuEnvsError, match=words.replace("rules", name)):
        check_memory(f"{name}:{ENV_ID}", num_steps=STEPS, num_envs=2)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["TicTacToe-v0", "Simple-v0"])
def test_environment_without_a_fault_passes_in_debug_mode(env_id, capsys):
    assert main(["check", env_id, "--debug", "--steps", "12", "--worlds", "2"]) == 0
    words = r"indices, divisions and loops hold \(12 steps of 2 worlds; \d\d+ places of the rules\)\n"
    assert re.match(f"{env_id}: {words}{env_id} passed all", capsys.readouterr().out)


def test_wrong_argument_of_the_memory_check_is_the_error_that_check_env_raises():
    with pytest.raises(ConfigError, match=r"^check_env: num_steps: expected an int in"):
        check_memory("CartPole-v1", num_steps=-3)


def test_phase_that_takes_too_long_is_named(tmp_path):
    progress = tmp_path / "progress"
    start = time.monotonic() - 2.0 * memory_check.LONGEST_PHASE
    progress.write_bytes(memory_check._PROGRESS.pack(7, 1, 3, start))
    (tmp_path / "phases").write_text('["move", "eat"]')
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        code = memory_check._wait(child, progress)
    finally:
        child.kill()
        child.wait()
    assert code is None
    words = "every phase ends; phase eat, world 3, step 7: it runs for more than 60 s; look for an endless loop"
    assert memory_check._explain_end(code, progress, str(tmp_path), "") == words
