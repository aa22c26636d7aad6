"""Pages are complete: parts, fresh tables, and columns that match the environments."""

import ast
import importlib
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_environments import SMALL, SPECIAL

from docs.scripts import commands, generate, pictures, reference, tables
from gpu_envs.definition.registry import list_envs
from gpu_envs.descriptions import description_module
from gpu_envs.runtime.factory import make_core

ROOT = Path(__file__).parents[2]
NAMES = tables.names()
HEADINGS = {
    "## Rules": (),
    "### Rewards": (),
    "### End of an episode": (),
    "## Actions": (),
    "## Observations": ("observations",),
    "## Settings": ("settings", "constants", "state"),
    "## Validation": (),
    "## Version history": (),
}
"""Headings of a page in order, each with its generated parts; the summary comes first."""


OTHER_PARITY = {
    "envpool",
    "grid/robot_warehouse_settings",
    "mpe/spaces",
    "vmas/physics2d",
    "tag_continuous_reference",
    "tag_gridworld_reference",
    "tax_optimum",
    "traces",
}
"""Tests in tests/parity that are not the oracle test of an environment."""
FILMED = ("CartPole-v1", "RockPaperScissors-v0")
OBSERVED = ("CartPole-v1", "DarkHex-v0", "RockPaperScissors-v0", "SimpleTag-v0")
"""Environments of quick tests: the page of every other one is a slow test."""


def every_page(quick):
    """Return places and IDs of all environments as parameters; the tests of those that are not quick are slow."""
    return [
        pytest.param(name, env_id, marks=() if env_id in quick else pytest.mark.slow) for name, env_id in NAMES.items()
    ]


def defines(path, names):
    """Return whether a module defines these top-level functions and classes, or takes them from another."""
    text = path.read_text() if names else ""
    if not all(name in text for name in names):  # parsing takes long
        return False
    body = ast.parse(text).body
    defined = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    defined |= {alias.name for node in body if isinstance(node, ast.ImportFrom) for alias in node.names}
    return names <= defined | {ast.unparse(node.targets[0]) for node in body if isinstance(node, ast.Assign)}


def without_folder(path):
    """Return the place of an environment whose file lies in a folder of its name."""
    *group, folder, name = path.split("/")
    return "/".join((*group, name)) if group and folder == name else path


# ---------------------------------------------------------------- nothing is missing


def test_every_environment_has_files_a_page_and_an_oracle_test():
    """Every environment has rules, host module, page with picture, and oracle test; no file is left over."""
    assert sorted(NAMES.values()) == list_envs()

    def places(folder, pattern, names=frozenset()):
        """Return the paths of files under a folder, without suffix."""
        paths = [path for path in (ROOT / folder).rglob(pattern) if path.name != "__init__.py"]
        return {str(path.relative_to(ROOT / folder).with_suffix("")) for path in paths if defines(path, names)}

    host = {without_folder(path) for path in places("gpu_envs/envs", "*.py", {"Config", "build"})}
    rules = {without_folder(path) for path in places("warp_kernels", "*.py", {"rules", "Params", "State"})}
    pages, moving = (places("docs/envs", f"*.{end}") for end in ("md", "webp"))
    oracles = {path.replace("test_", "") for path in places("tests/parity", "test_*.py")} - OTHER_PARITY
    assert set(NAMES) == host == rules == pages == moving == oracles
    assert set(SMALL) == set(list_envs())


def sections(text):
    """Return the parts of a page by heading, in order; the part before the first heading has the key ""."""
    parts = re.split(r"^(##+ .+)$", text, flags=re.MULTILINE)
    return dict(zip(("", *parts[1::2]), parts[::2], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_page_holds_every_part(name):
    text = (generate.PAGES / f"{name}.md").read_text(encoding="utf-8")
    parts, stem = sections(text), name.rpartition("/")[2]
    assert [heading for heading in parts if heading in HEADINGS] == list(HEADINGS)
    for heading, marked in {"": ("summary",), **HEADINGS}.items():
        generated = dict.fromkeys(re.split(r"\W", match[1])[0] for match in generate.ON_SITE.finditer(parts[heading]))
        assert list(generated) == list(marked), heading
        assert len(generate.ON_SITE.sub("", parts[heading]).strip()) > 10 or marked, f"{heading} says nothing"
    assert text.startswith(f"# {NAMES[name]}\n")
    assert pictures.captioned(text, name) == text
    assert re.search(rf"^!\[.+\]\({stem}\.webp\)$", parts[""], re.MULTILINE), "no picture"
    assert re.search(r"terminate|truncate", parts["### End of an episode"])
    assert f"test_{stem}.py" in parts["## Validation"]
    assert f"- v{NAMES[name].rpartition('-v')[2]}: " in parts["## Version history"]


@pytest.mark.parametrize("name", NAMES)
def test_generated_parts_have_the_required_rows_and_columns(name):
    """The tables list agents, time limits and tolerances, and every action, observation and reward with its unit."""
    page = generate.environment_page(name)
    for row in ("agents by group", "time limit", "oracle test"):
        assert f"| {row} |" in page
    assert re.search(r"compared exactly|errors up to \d", page)
    assert page.count("\n| index | meaning | unit | range |\n") == len(tables.views(name)) > 0
    assert tables.action_tables(name)
    assert "\n| name | type | default | allowed | meaning |\n" in page
    assert "\n| field | shape | range | meaning, unit |\n" in page
    assert "<!--" not in page
    for target in re.findall(r"\]\((?!\w+:)([^)#\s]+)", page):
        assert (generate.PAGES / name).parent.joinpath(target).exists(), target


def test_summary_names_the_commands_and_the_comparisons_of_algorithms():
    pole = tables.summary("classic/cartpole")
    assert "`gpu-envs train CartPole-v1 --algorithm dqn`; " in pole
    assert "; compared: [ppo, a2c, " in pole
    assert "](../../learning.md#classic-control)" in pole
    assert "`gpu-envs train MultiCartPole-v0`; settings: [presets]" in tables.summary("classic/multi_cartpole")
    assert "| training |" not in tables.summary("games/kuhn_poker")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("grid/coin_game", "per world, except `num_inner_steps`, which is fixed when the environment is made:"),
        ("grid/robot_warehouse", "except `rows`, `columns` and `unrequested`, which are fixed"),
        ("games/disc_game", "Parameters of the rules, fixed when the environment is made:"),
        ("games/kuhn_poker", "changes them for all worlds or per world:"),
    ],
)
def test_parameters_that_are_fixed_are_named(name, words):
    assert words in " ".join(tables.constants(name).split())


def test_single_agents_of_several_groups_are_listed_by_name():
    assert tables.agents_of({"left": [0], "right": [1]}) == "2 agents: left, right"
    assert tables.agents_of({"adversary": [0, 1], "agent": [2]}) == "2 adversaries, 1 agent"
    assert tables.agents_of({"agent": [0]}) == "1 agent"


def test_every_command_shows_its_help():
    """The site replaces a block of the page with the output of its command."""
    page = (ROOT / "docs" / "guides" / "command_line.md").read_text(encoding="utf-8")
    command_lines = re.findall(r"^```\{help\}\ngpu-envs (.+) --help(?:-all)?\n```$", page, re.MULTILINE)
    assert {words.split()[0] for words in command_lines} == set(commands.commands())
    for words in command_lines:
        assert f"usage: gpu-envs {words} " in commands.help_text(*words.split())


def test_reference_has_the_public_names_of_every_package():
    pages = reference.pages()
    index = pages.pop(reference.PAGES / "index.md")
    for package in reference.PACKAGES:
        for name in importlib.import_module(package).__all__:
            assert f"| `{name}` | [" in index, name
    for path, text in pages.items():
        assert f"automodule:: {path.stem}\n" in text
        assert f"\n{path.stem}\n" in index


# ---------------------------------------------------------------- nothing is stale


MARKED = [path for path in generate.pages() if generate.MARKED.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", MARKED, ids=lambda path: path.name)
def test_committed_tables_are_fresh(path):
    assert generate.filled(path) == path.read_text(encoding="utf-8"), "run: python -m docs.scripts.generate"


@pytest.mark.parametrize(("name", "env_id"), every_page(FILMED))
def test_pictures_are_fresh(name, env_id):
    assert pictures.fresh(name, env_id), f"{name}.webp is stale; run: python -m docs.scripts.pictures {name}"


def test_pictures_are_small():
    sizes = {name: (pictures.PAGES / f"{name}.webp").stat().st_size for name in NAMES}
    assert {name: size for name, size in sizes.items() if size > pictures.LARGEST} == {}
    assert pictures.STRIP.stat().st_size <= pictures.LARGEST_STRIP


# ---------------------------------------------------------------- numbers mean what the page says


@pytest.mark.parametrize(("name", "env_id"), NAMES.items())
def test_shapes_of_states_are_those_of_tensors(name, env_id):
    core = make_core(env_id, 3, "cpu")
    rows = re.findall(r"^\| `(\w+)` \| `\((E[^)]*)\)`", tables.state(name), re.MULTILINE)
    shapes = {key: tuple(map(int, shape.replace("E", "3").rstrip(",").split(","))) for key, shape in rows}
    assert shapes == {key: tuple(tensor.shape) for key, tensor in core.world_state.items()}


@pytest.mark.parametrize("name", NAMES)
def test_reward_tables_have_the_defaults(name):
    """A reward that is a setting or a parameter has its default in the last column."""
    config, d = tables.configured(name, {})
    (rows,) = tables.page_tables(name, "### Rewards")
    for _, _, reward, default in rows:
        match = re.fullmatch(r"(-?)`(\w+)`", reward)
        value = getattr(config, match[2], d.params.get(match[2])) if match else None
        assert default == ("" if value is None else tables.number(-value if match[1] else value)), reward


@pytest.mark.parametrize(("name", "env_id"), every_page(OBSERVED))
def test_observations_lie_in_the_described_ranges(name, env_id):
    blocks_of = description_module(env_id).observation_blocks
    for settings in [settings for _, settings in tables.views(name)] + [words for id, words in SPECIAL if id == env_id]:
        core = make_core(env_id, 6, "cpu", seed=0, autoreset="disabled", **SMALL[env_id] | settings)
        low, high = torch.zeros(2, *core.obs.shape[1:])
        for row in range(core.num_agents):
            blocks = blocks_of(core.config, row)
            for bound, values in ((low, [b.low for b in blocks]), (high, [b.high for b in blocks])):
                entries = torch.tensor(values).repeat_interleave(torch.tensor([b.width for b in blocks]))
                bound[row, : len(entries)] = entries
        obs, info = core.reset()
        present, count = info["alive"], 0
        for _ in range(25):
            outside = ((obs < low - 1e-5) | (obs > high + 1e-5)) & present[..., None]
            assert not outside.any(), outside.nonzero()[0]
            count += int((obs[present] != 0).any(-1).sum())
            core.reset(reset_mask=~core.alive.any(1))
            obs, _, _, _, info = core.step(core.sample_actions())
            present = info["valid"]
        assert count > 100


@pytest.mark.parametrize("name", NAMES)
def test_observation_tables_cover_all_agents(name):
    """The views shown are of every width that agents have."""
    agents = {agent for agent, settings in tables.views(name)}
    _, d = tables.configured(name, {})
    assert {d.observation_spaces[agent].shape for agent in agents} == {s.shape for s in d.observation_spaces.values()}


def test_internals_list_the_phases_of_a_step():
    """The table of phases is the step's, in order."""
    from warp_kernels.framework.step import step_phases

    rules = replace(tables.configured("mpe/simple_tag", {})[1].rules, info=(("hits", ()),))
    parts = step_phases(rules)
    text = (ROOT / "docs" / "internals.md").read_text(encoding="utf-8")
    table = text[text.index("### A step, phase by phase") :].split("\n## ")[0]
    rows = re.findall(r"^\| (?:`(\w+)`|\*the rules\*) \| (\w+)", table, re.MULTILINE)

    def name(phase):
        called = phase.run.key.rpartition("__")[2]
        return ("", "as") if called.startswith("guarded") else (called, f"{phase.over}s")

    assert rows == list(dict.fromkeys(map(name, (*parts.play, *parts.start))))  # the rules' phases are one row
    for phase in parts.renew:
        assert f"`{name(phase)[0]}`" in table
