"""Language of docstrings, comments, messages and pages: refused words, fragments, long sentences, names of tests.

`python tests/house/test_prose.py` prints all findings, `python tests/house/test_prose.py AREA` those of an area.
A line with "prose: ok (reason)" is not checked.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AREAS = ("warp_kernels", "gpu_envs", "trainers", "league", "benchmarks", "docs", "examples", "tests")
MAX_WORDS = 40
"""Words of one sentence."""
DICTIONARY = ROOT / ".codespell" / "dictionary.txt"
PHRASES = (
    r"tells of|of everything|where it all|what speaks against|hangs on|what came of|goes on with|gives out|takes in"
    r"|is there already|where there is (?:one|none)|as it stands|out of nothing but|on paper|the like of"
    r"|sees (?:that|to)|it proves nothing|sums to 0|of two seats"
)
WORDS = "|".join(line.partition("->")[0] for line in DICTIONARY.read_text(encoding="utf-8").split("\n") if line)
REFUSED = re.compile(rf"\b(?:{WORDS}|{PHRASES})\b(?! ?maps?\b)", re.IGNORECASE)
FRAGMENT = re.compile(r"(?:Of|By|Who|Whom|Whose|What|Where|That|Those)\b")
FIRST_PERSON = re.compile(r"\b(?:we|our|ours)\b", re.IGNORECASE)
TEST_NAME = re.compile(r"test_(?:(?:an?|the|who|what|where|whoever|nobody|everything)_|[a-z0-9]*$)")
SENTENCE = re.compile(r"(?<=[.!?])\s+|:\s*\n|\n\s*(?:\n|[-*|#>]|\d+\.|\w[\w ,*`]*: )|\n {4,}(?=\S.* (?:=|<-) )|\|")
"""The end of a sentence, a paragraph, an entry of a list, a cell of a table or a line of a formula."""
AFTER_HASH = re.compile(r"#.*")
"""What is a comment, or a part of a string."""
WORDLESS = (ast.Name, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
CONTRIBUTING = ("CONTRIBUTING.md", "docs/contributing.md")
CARD_GAMES = re.compile(r"/games/|/cards/|/\w*hanabi\w*\.")
"""Paths of files that may say "deck"."""
OPT_OUT = "prose: ok"


def files(area: str) -> list[Path]:
    """Return the Python and Markdown files of an area; pages beside the packages belong to docs."""
    skipped = {"node_modules", "templates", "results"}
    found = [path for path in (ROOT / area).rglob("*") if path.suffix in (".py", ".md")]
    if area == "docs":
        found += ROOT.glob("*.md")
    return [path for path in sorted(found) if not skipped & set(path.parts) and path != Path(__file__)]


def findings(area: str) -> list[str]:
    """Return one line per finding: place, rule and text."""
    found = []
    for path in files(area):
        text = path.read_text(encoding="utf-8")
        name, check = str(path.relative_to(ROOT)), _in_python if path.suffix == ".py" else _in_markdown
        lines = text.splitlines()
        for line, rule, words in check(name, text):
            if OPT_OUT not in lines[line - 1]:
                found.append(f"{name}:{line}: {rule}: {words}")
    return found


def _in_python(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    nodes = _nodes(ast.parse(text))
    strings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _in_text(name, node.lineno, node.value, sentences=id(node) in strings)
            if id(node) in strings and FRAGMENT.match(node.value):
                yield node.lineno, "fragment", node.value.split("\n")[0]
        if isinstance(node, ast.FunctionDef) and name.startswith("tests/") and TEST_NAME.match(node.name):
            yield node.lineno, "name of a test", node.name
    if any(_in_text(name, 1, "\n".join(AFTER_HASH.findall(text)), sentences=False)):  # reading all tokens takes long
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield from _in_text(name, token.start[0], token.string, sentences=False)


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes of a file; names and operators, which are most of them and have no words, are left out."""
    found: list[ast.AST] = [tree]
    for node in found:
        for name in node._fields:
            value = getattr(node, name, None)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, WORDLESS):
                    found.append(child)
    return found


def _in_markdown(name: str, text: str) -> Iterator[tuple[int, str, str]]:
    """Check a page without its code blocks and without the parts that are generated from docstrings."""
    for pattern in (r"^```.*?^```", r"<!-- generated.*?<!-- end -->", r"\]\([^)]*\)", r"`[^`\n]*`"):
        blank = re.MULTILINE | re.DOTALL
        text = re.sub(pattern, lambda match: "x" + "\n" * match[0].count("\n"), text, flags=blank)
    yield from _in_text(name, 1, text, sentences=True)


def _in_text(name: str, first: int, text: str, sentences: bool) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.split("\n"), first):
        for match in REFUSED.finditer(line):
            if not (match[0].lower().startswith("deck") and CARD_GAMES.search(name)):  # a deck of cards
                yield number, "refused", match[0]
        if name not in CONTRIBUTING:
            yield from ((number, "first person", match[0]) for match in FIRST_PERSON.finditer(line))
    if sentences:
        start = 0
        for sentence in SENTENCE.split(text):
            start = max(text.find(sentence, start), 0)
            if len(sentence.split()) > MAX_WORDS:
                yield first + text.count("\n", 0, start), f"over {MAX_WORDS} words", sentence.split("\n")[0]


@pytest.mark.parametrize("area", AREAS)
def test_prose_has_no_findings(area):
    assert not findings(area), "\n".join(findings(area))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""Of everything."""', "refused"),
        ('"""Of the run."""', "fragment"),
        ("x = 1  # as we do", "first person"),
        (f'"""{"word " * 41}."""', "over 40 words"),
        ("def test_the_end():\n    pass", "name of a test"),
        ("def test_end():\n    pass", "name of a test"),
    ],
)
def test_each_rule_finds_its_example(text, rule):
    assert rule in {found for _, found, _ in _in_python("tests/test_x.py", text)}


def test_plain_prose_has_no_findings():
    text = '"""Return whether the heat map has a value."""'
    assert not list(_in_python("tests/test_x.py", text + "\n\n\ndef test_step_returns_clones():\n    pass\n"))
    assert not list(_in_markdown("docs/x.md", "# Title\n\nOne sentence.\n\n```\nwe told nobody\n```\n"))


if __name__ == "__main__":
    for each in sys.argv[1:] or AREAS:
        print(*findings(each), sep="\n")
