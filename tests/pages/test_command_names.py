"""Commands that pages name exist: every ``gpu-envs WORD [WORD]`` in code."""

import re
from pathlib import Path

import pytest

from docs.scripts import commands
from gpu_envs.errors import ConfigError

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
FAMILIES = ("league",)
"""Commands that have subcommands."""
FENCED = re.compile(r"^( *)(`{3,}).*?^\1\2$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
NAMED = re.compile(r"gpu-envs\s+([a-z][\w-]*)(?:\s+([a-z][\w-]*))?(?![\w:/.-])")


def subcommands(family):
    """Return the subcommands that the error about an unknown one lists."""
    with pytest.raises(ConfigError, match="expected one of ") as caught:
        commands.commands()[family].load()(["xyz"])
    return str(caught.value).rpartition("expected one of ")[2].split(", ")


def unknown(text, subcommands):
    """Return the commands of a page's code that do not exist; ``subcommands`` has the subcommands by command."""
    fenced = [match[0] for match in FENCED.finditer(text)]
    inline = [match[2] for part in FENCED.sub("\n\n", text).split("\n\n") for match in INLINE.finditer(part)]
    matches = [match for code in (*fenced, *inline) for match in NAMED.finditer(code)]
    return [
        " ".join(match[0].split())
        for match in matches
        if match[1] not in subcommands or (subcommands[match[1]] and match[2] and match[2] not in subcommands[match[1]])
    ]


@pytest.fixture(scope="module")
def known_commands():
    return {name: subcommands(name) if name in FAMILIES else [] for name in commands.commands()}


def test_pages_name_commands_that_exist(known_commands):
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]  # it also names commands that went
    results = {str(path.relative_to(ROOT)): unknown(path.read_text(encoding="utf-8"), known_commands) for path in pages}
    assert {path: names for path, names in results.items() if names} == {}


def test_unknown_commands_are_found(known_commands):
    text = "`gpu-envs league\nexploit` and gpu-envs goes\n\n```bash\ngpu-envs exploits RUN\n```\n`gpu-envs exploit RUN`"
    assert unknown(text, known_commands) == ["gpu-envs exploits", "gpu-envs league exploit"]


def test_no_page_installs_from_the_index_where_the_package_is_not():
    """Extras are installed from a clone until `which_library.md` has another row for the package."""
    pages = [path for path in PAGES if path.name not in ("RELEASING.md", "CHANGELOG.md")]
    files = [*pages, *ROOT.glob("docs/cluster/*"), *ROOT.glob("examples/*.py")]
    lines = [line for path in files for line in path.read_text(encoding="utf-8").splitlines() if "pip install" in line]
    assert lines
    assert [line for line in lines if re.search(r"[ '\"]gpu-envs(\[| |'|$)", line.partition("pip install")[2])] == []
