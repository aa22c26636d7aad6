"""The pages tell the truth: nothing is missing, tables are fresh, columns mean what they say."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import SMALL

from docs.scripts import commands, generate, pictures, tables
from gpu_envs.definition.registry import list_envs
from gpu_envs.descriptions import base as descriptions
from gpu_envs.runtime.factory import make_core

ROOT = Path(__file__).parents[2]
NAMES = tables.names()
HEADINGS = {
    "## Rules": (),
    "### Rewards": ("rewards",),
    "### End of an episode": (),
    "## Actions": ("actions",),
    "## Observations": ("observations",),
    "## Settings": ("settings", "constants", "state"),
    "## Validation": (),
    "## Version history": (),
}
"""What a page has, in this order, and the generated parts in it; the summary stands before all."""


def functions(path):
    """Names of the functions and classes at the top of a module."""
    if path.suffix != ".py":
        return set()
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


# ---------------------------------------------------------------- nothing is missing


def test_registry_is_files_is_pages_is_oracles():
    """Every environment has its two files, a page with words and picture, and an oracle test; no file is left over."""
    assert sorted(NAMES.values()) == list_envs()

    def places(folder, pattern, wanted=frozenset()):
        """Files under a folder without their suffix, as places."""
        found = [path for path in (ROOT / folder).rglob(pattern) if path.name != "__init__.py"]
        return {str(path.relative_to(ROOT / folder).with_suffix("")) for path in found if wanted <= functions(path)}

    host = places("gpu_envs/envs", "*.py", {"Config", "build"})
    rules = places("warp_kernels", "*.py", {"rules", "Params", "State"})
    pages, moving = (places("docs/envs", f"*.{end}") for end in ("md", "gif"))
    words = places("gpu_envs/descriptions", "*.py") - {"base", "mpe/particles"}
    oracles = {path.replace("test_", "") for path in places("tests/parity", "test_*.py")} - {"references"}
    assert set(NAMES) == host == rules == pages == words == moving == oracles
    assert set(SMALL) == set(list_envs())


def sections(text):
    """The parts of a page by heading, in order; what stands before the first is under ""."""
    found = re.split(r"^(##+ .+)$", text, flags=re.MULTILINE)
    return dict(zip(("", *found[1::2]), found[::2], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_page_holds_every_part(name):
    text = (generate.PAGES / f"{name}.md").read_text(encoding="utf-8")
    parts, stem = sections(text), name.rpartition("/")[2]
    assert [heading for heading in parts if heading in HEADINGS] == list(HEADINGS)
    for heading, marked in {"": ("summary",), **HEADINGS}.items():
        made = [match[2] for match in generate.MARKED.finditer(parts[heading])]
        assert made == list(marked), heading
        assert len(generate.MARKED.sub("", parts[heading]).strip()) > 10 or marked, f"{heading} says nothing"
    assert text.startswith(f"# {NAMES[name]}\n")
    assert pictures.captioned(text, name) == text
    assert re.search(rf"^!\[.+\]\({stem}\.gif\)$", parts[""], re.MULTILINE), "no picture"
    assert re.search(r"terminate|truncate", parts["### End of an episode"])
    assert f"test_{stem}.py" in parts["## Validation"]
    assert f"- v{NAMES[name].rpartition('-v')[2]}: " in parts["## Version history"]


@pytest.mark.parametrize("name", NAMES)
def test_generated_parts_say_what_they_are_to_say(name):
    """Who plays, for how long, how closely it is compared; every action, observation and reward with unit or bounds."""
    summary = generate.tables.summary(name)
    for row in ("agents by group", "time limit", "oracle test"):
        assert f"| {row} |" in summary
    assert re.search(r"compared exactly|errors up to \d", summary)
    for column in ("index", "meaning", "unit", "range"):
        assert f"| {column} " in generate.tables.observations(name)
    assert re.search(r"^\| (index|component)", generate.tables.actions(name), re.MULTILINE)
    assert generate.tables.rewards(name).count("\n") >= 2
    assert generate.tables.settings(name).startswith("| name | type | default | allowed | meaning |")
    assert generate.tables.state(name).startswith("| field | shape | range | meaning, unit |")


def test_every_command_shows_its_help():
    page = (ROOT / "docs" / "guides" / "command_line.md").read_text(encoding="utf-8")
    shown = [match[2].split()[1] for match in generate.MARKED.finditer(page)]
    assert set(shown) == set(commands.commands())
    assert "usage: gpu-envs league train" in page


# ---------------------------------------------------------------- nothing is stale


@pytest.mark.parametrize("path", generate.pages(), ids=lambda path: path.name)
def test_tables_are_fresh(path):
    assert generate.filled(path) == path.read_text(encoding="utf-8"), "run: python docs/scripts/generate.py"


@pytest.mark.parametrize("name", NAMES)
def test_pictures_are_fresh_and_small(name):
    assert pictures.fresh(name, NAMES[name]), f"{name}.gif is stale; run: python -m docs.scripts.pictures {name}"
    assert (pictures.PAGES / f"{name}.gif").stat().st_size <= 300_000


def test_the_readmes_picture_is_small():
    assert pictures.STRIP.stat().st_size <= 500_000


def test_a_stale_table_is_found(tmp_path):
    page = tmp_path / "simple_tag.md"
    text = (generate.PAGES / "mpe" / "simple_tag.md").read_text(encoding="utf-8")
    page.write_text(text.replace("| `num_good` | `int` | `1` |", "| `num_good` | `int` | `2` |"), encoding="utf-8")
    assert page.read_text(encoding="utf-8") != text == generate.filled(page, "mpe/simple_tag")


# ---------------------------------------------------------------- numbers mean what the page says


def check_blocks(core, blocks_of, rows, steps=25):
    """Hold what the blocks claim against what agents see, in every world and step; returns how much was compared."""
    compared = 0
    obs, info = core.reset()
    valid = info["alive"]
    for _ in range(steps):
        for env in range(core.num_envs):
            world = descriptions.copy_world(core, env)
            for row in rows:
                if valid[env, row]:
                    blocks = blocks_of(core.config, row)
                    mine, seen = descriptions.expected_observation(blocks, world, row), obs[env, row].numpy()
                    width = core.observation_spaces[core.possible_agents[row]].shape[0]
                    assert mine.shape == (width,)
                    np.testing.assert_allclose(seen[:width], mine, atol=1e-5, rtol=0)
                    low = np.concatenate([np.full(block.width, block.low) for block in blocks])
                    high = np.concatenate([np.full(block.width, block.high) for block in blocks])
                    assert (low - 1e-5 <= mine).all(), np.flatnonzero(low - 1e-5 > mine)
                    assert (mine <= high + 1e-5).all(), np.flatnonzero(mine > high + 1e-5)
                    compared += mine.any()
        core.reset(reset_mask=~core.alive.any(1))
        obs, _, _, _, info = core.step(core.sample_actions())
        valid = info["valid"]
    return compared


@pytest.mark.parametrize("name", NAMES)
def test_observation_columns(name):
    words, id = tables.description(name), NAMES[name]
    for agent, settings in words.OBSERVATIONS.values():
        core = make_core(id, 6, "cpu", seed=0, autoreset="disabled", **SMALL[id] | settings)
        group = next(rows for rows in core.groups.values() if core.possible_agents.index(agent) in rows)
        assert check_blocks(core, words.observation_blocks, group) > 100


@pytest.mark.parametrize("name", NAMES)
def test_observation_tables_cover_all_agents(name):
    """The views shown are of every width that agents have."""
    words = tables.description(name)
    shown = {agent for agent, settings in words.OBSERVATIONS.values()}
    _, d = tables.configured(name, {})
    assert {d.observation_spaces[agent].shape for agent in shown} == {s.shape for s in d.observation_spaces.values()}


def one_step(name, prepare, action, **settings):
    """State of a small world after one step, in which all agents take this action (component by component)."""
    core = make_core(NAMES[name], 1, "cpu", seed=0, autoreset="disabled", **SMALL[NAMES[name]] | settings)
    core.reset()
    prepare(core.world_state)
    core.step(torch.zeros_like(core.action_buffer) + torch.as_tensor(action, dtype=core.action_buffer.dtype))
    return {field: tensor[0] for field, tensor in core.world_state.items()}


def direction_of(word):
    """Unit vector of a cell like "left, -x"; zero where it names no axis."""
    axis = {"x": (1.0, 0.0), "y": (0.0, 1.0)}.get(word[-1], (0.0, 0.0)) if word[-2:-1] in ("+", "-") else (0.0, 0.0)
    return torch.tensor(axis) * (-1.0 if word[-2:-1] == "-" else 1.0)


def simple_tag_actions():
    def apart(state):
        state["pos"].copy_(torch.arange(12.0).view(1, 6, 2))

    discrete, continuous = tables.description("mpe/simple_tag").action_tables()
    accel = torch.tensor([[3.0], [3.0], [3.0], [4.0]])
    for index, push in discrete.rows:
        after = one_step("mpe/simple_tag", apart, index)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))
    for index, push, _ in continuous.rows:
        after = one_step("mpe/simple_tag", apart, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], accel * 0.1 * direction_of(push))


def tag_continuous_actions():
    def moving(state):
        state["speed"].fill_(0.5)
        state["direction"].fill_(3.0)

    (table,) = tables.description("tag/tag_continuous").action_tables()
    for index, acceleration, turn in table.rows:
        after = one_step("tag/tag_continuous", moving, index)
        assert abs(after["acceleration"][0] - float(acceleration)) < 1e-4
        assert abs(after["direction"][0] - 3.0 - float(turn)) < 1e-3


def tag_gridworld_actions():
    (table,) = tables.description("tag/tag_gridworld").action_tables()
    for index, move in table.rows:
        after = one_step("tag/tag_gridworld", lambda state: state["cell"].fill_(2), index)
        assert (after["cell"] - 2 == direction_of(move)).all()


def mpe_actions(name, accel=5.0):
    """Agents at rest and out of each other's reach are pushed as the tables say [N]."""

    def apart(state):
        state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    discrete, continuous = tables.description(name).action_tables()
    for index, push in discrete.rows:
        after = one_step(name, apart, index)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))
    for index, push, _ in continuous.rows:
        after = one_step(name, apart, torch.eye(5)[index], continuous_actions=True)
        torch.testing.assert_close(after["vel"], (accel * 0.1 * direction_of(push)).expand_as(after["vel"]))


# MPE, the talking ones


def talking_actions(name, speakers, accel, tables_of):
    """Hold tables of words and pushes against what agents do: (table, rows of the agents, continuous) each."""

    def apart(state):
        if "pos" in state:
            state["pos"].copy_(torch.arange(float(state["pos"].numel())).view_as(state["pos"]))

    components = max(len(table.rows) for table, _, continuous in tables_of if continuous)
    for table, rows, continuous in tables_of:
        for index, meaning, *_ in table.rows:
            action = torch.zeros(len(accel), components) if continuous else torch.zeros(len(accel))
            action[rows] = torch.eye(components)[index] if continuous else float(index)
            after = one_step(name, apart, action, continuous_actions=continuous)
            if accel.any():
                torch.testing.assert_close(after["vel"][rows], accel[rows, None] * 0.1 * direction_of(meaning))
            letter = re.match(r"letter (\d+)", meaning)
            for speaker in speakers:
                said = torch.zeros(after["said"].shape[1])
                if speaker in rows and letter:
                    said[int(letter[1])] = 1.0
                elif not continuous:
                    said[0] = 1.0  # choice 0, which is a letter too
                assert torch.equal(after["said"][speaker], said)


def simple_crypto_actions():
    discrete, continuous = tables.description("mpe/simple_crypto").action_tables()
    rows = [0, 1, 2]
    talking_actions("mpe/simple_crypto", rows, torch.zeros(3), ((discrete, rows, False), (continuous, rows, True)))


def simple_reference_actions():
    discrete, continuous = tables.description("mpe/simple_reference").action_tables()
    rows, accel = [0, 1], torch.tensor([5.0, 5.0])
    talking_actions("mpe/simple_reference", rows, accel, ((discrete, rows, False), (continuous, rows, True)))


def simple_speaker_listener_actions():
    word, push, loudness, throttle = tables.description("mpe/simple_speaker_listener").action_tables()
    both = (word, [0], False), (push, [1], False), (loudness, [0], True), (throttle, [1], True)
    talking_actions("mpe/simple_speaker_listener", [0], torch.tensor([0.0, 5.0]), both)


def simple_world_comm_actions():
    lead, push, loudness, throttle = tables.description("mpe/simple_world_comm").action_tables()
    others, accel = [1, 2, 3, 4, 5], torch.tensor([3.0, 3.0, 3.0, 3.0, 4.0, 4.0])
    both = (lead, [0], False), (push, others, False), (loudness, [0], True), (throttle, others, True)
    talking_actions("mpe/simple_world_comm", [0], accel, both)


# classic control


def cartpole_actions():
    (table,) = tables.description("classic/cartpole").action_tables()
    for index, push in table.rows:
        after = one_step("classic/cartpole", lambda state: state["motion"].zero_(), index)
        assert after["motion"][1].sign() == direction_of(push)[0]


def mountain_car_actions():
    (table,) = tables.description("classic/mountain_car").action_tables()
    for index, push in table.rows:
        after = one_step("classic/mountain_car", lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), index)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        assert after["motion"][1] - coasting == pytest.approx(0.001 * float(direction_of(push)[0]), abs=1e-8)


def mountain_car_continuous_actions():
    name = "classic/mountain_car_continuous"
    ((_, throttle, span),) = tables.description(name).action_tables()[0].rows
    for action in ast.literal_eval(span):
        after = one_step(name, lambda state: state["motion"].copy_(torch.tensor([-0.5, 0.0])), action)
        coasting = -0.0025 * float(torch.cos(torch.tensor(-1.5)))
        expected = 0.0015 * action * float(direction_of(throttle)[0])
        assert after["motion"][1] - coasting == pytest.approx(expected, abs=1e-8)


def pendulum_actions():
    ((_, sense, span),) = tables.description("classic/pendulum").action_tables()[0].rows
    assert sense == "counter-clockwise"
    for torque in ast.literal_eval(span):
        after = one_step("classic/pendulum", lambda state: state["motion"].zero_(), torque)
        assert float(after["motion"][1]) == pytest.approx(3 * torque * 0.05)
        picture = -torch.sin(after["motion"][0])  # where the free end went, to the right
        assert picture.sign() == -torch.tensor(torque).sign()


def acrobot_actions():
    (table,) = tables.description("classic/acrobot").action_tables()
    for index, torque in table.rows:
        after = one_step("classic/acrobot", lambda state: state["motion"].zero_(), index)
        assert after["motion"][3].sign() == float(torque)


def connect_four_actions():
    (table,) = tables.description("games/connect_four").action_tables()
    assert [index for index, _ in table.rows] == list(range(7))
    for index, where in table.rows:
        after = one_step("games/connect_four", lambda state: None, index, rows=6, columns=7)
        assert after["marks"].tolist() == [1 << 7 * int(re.match(r"column (\d)", where)[1]), 0]


def disc_game_actions():
    ((x, *_), (y, *_)) = tables.description("games/disc_game").action_tables()[0].rows
    after = one_step("games/disc_game", lambda state: None, torch.eye(2)[x] * 0.5 + torch.eye(2)[y] * 0.25)
    assert after["last"].tolist() == [[0.5, 0.25]] * 2


def tic_tac_toe_actions():
    words = tables.description("games/tic_tac_toe")
    (table,) = words.action_tables()
    for index, where in table.rows:
        row, column = (side.split()[0] for side in where.split(", "))
        after = one_step("games/tic_tac_toe", lambda state: None, index)
        assert after["marks"].tolist() == [1 << 4 * words.ACROSS.index(column) + words.DOWN.index(row), 0]


def kuhn_poker_actions():
    (table,) = tables.description("games/kuhn_poker").action_tables()
    for index, action, _ in table.rows:
        assert one_step("games/kuhn_poker", lambda state: None, index)["bets"] == int(action == "bet")


def leduc_poker_actions():
    """After a raise of the other, all three are legal."""
    (table,) = tables.description("games/leduc_poker").action_tables()
    paid = {"fold": 1, "call": 3, "raise": 5}
    for index, action, _ in table.rows:
        core = make_core("LeducPoker-v0", 1, "cpu", seed=0, autoreset="disabled")
        core.reset()
        core.step(torch.tensor([[2, 0]]))
        assert core.action_mask[0, 1].all()
        _, _, terminated, _, _ = core.step(torch.tensor([[0, index]]))
        assert core.world_state["chips"].tolist() == [[3, paid[action]]]
        assert terminated.all() == (action == "fold")


def matrix_game_actions():
    (table,) = tables.description("games/matrix_game").action_tables()
    core = make_core("MatrixGame-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, earns in table.rows:
        for other, payoff in enumerate(earns.split(" or ")):
            assert core.step(torch.tensor([[index, other]]))[1][0, 0] == float(payoff)


def rock_paper_scissors_actions():
    (table,) = tables.description("games/rock_paper_scissors").action_tables()
    named = {choice: index for index, choice, _ in table.rows}
    core = make_core("RockPaperScissors-v0", 1, "cpu", seed=0)
    core.reset()
    for index, _, beaten in table.rows:
        assert core.step(torch.tensor([[index, named[beaten]]]))[1].tolist() == [[1.0, -1.0]]


def climbing_game_actions():
    (table,) = tables.description("games/climbing_game").action_tables()
    core = make_core("ClimbingGame-v0", 1, "cpu", seed=0)
    core.reset()
    for row, *earned in table.rows:
        for column, payoff in enumerate(earned):
            assert core.step(torch.tensor([[row, column]]))[1].tolist() == [[float(payoff)] * 2]


def two_step_game_actions():
    (table,) = tables.description("games/two_step_game").action_tables()
    core = make_core("TwoStepGame-v0", 1, "cpu", seed=0)
    core.reset()
    to = {way.removeprefix("to table "): index for index, way, *_ in table.rows}
    for index, _, safe, *risky in table.rows:
        for column in range(2):
            for name, payoff in (("A", safe), ("B", risky[column])):
                core.step(torch.tensor([[to[name], 0]]))
                assert core.step(torch.tensor([[index, column]]))[1].tolist() == [[float(payoff)] * 2]


ACTIONS = {
    "mpe/simple_tag": simple_tag_actions,
    "tag/tag_continuous": tag_continuous_actions,
    "tag/tag_gridworld": tag_gridworld_actions,
    # MPE
    "mpe/simple": lambda: mpe_actions("mpe/simple"),
    "mpe/simple_adversary": lambda: mpe_actions("mpe/simple_adversary"),
    "mpe/simple_push": lambda: mpe_actions("mpe/simple_push"),
    "mpe/simple_spread": lambda: mpe_actions("mpe/simple_spread"),
    # MPE, the talking ones
    "mpe/simple_crypto": simple_crypto_actions,
    "mpe/simple_reference": simple_reference_actions,
    "mpe/simple_speaker_listener": simple_speaker_listener_actions,
    "mpe/simple_world_comm": simple_world_comm_actions,
    # classic control
    "classic/cartpole": cartpole_actions,
    "classic/mountain_car": mountain_car_actions,
    "classic/mountain_car_continuous": mountain_car_continuous_actions,
    "classic/pendulum": pendulum_actions,
    "classic/acrobot": acrobot_actions,
    # games
    "games/climbing_game": climbing_game_actions,
    "games/connect_four": connect_four_actions,
    "games/disc_game": disc_game_actions,
    "games/kuhn_poker": kuhn_poker_actions,
    "games/leduc_poker": leduc_poker_actions,
    "games/matrix_game": matrix_game_actions,
    "games/rock_paper_scissors": rock_paper_scissors_actions,
    "games/tic_tac_toe": tic_tac_toe_actions,
    "games/two_step_game": two_step_game_actions,
}


@pytest.mark.parametrize("name", NAMES)
def test_action_tables(name):
    """A new environment needs a check of its action table in ACTIONS."""
    ACTIONS[name]()


def test_internals_list_the_phases_of_a_step():
    """The table of phases is the step's, in order."""
    from warp_kernels.framework.step import step_phases

    parts = step_phases(tables.configured("mpe/simple_tag", {})[1].rules)
    text = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
    table = text[text.index("### A step, phase by phase") :].split("\n## ")[0]
    rows = re.findall(r"^\| (?:`(\w+)`|\*the rules\*) \| (\w+)", table, re.MULTILINE)

    def name(phase):
        called = phase.run.key.rpartition("__")[2]
        return ("", "as") if called.startswith("guarded") else (called, f"{phase.over}s")

    assert rows == list(dict.fromkeys(map(name, (*parts.play, *parts.start))))  # the rules' phases are one row
    for phase in parts.renew:
        assert f"`{name(phase)[0]}`" in table
