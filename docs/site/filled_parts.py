"""Parts of pages that the site fills in: help of commands, settings of algorithms, tables of environments, scripts.

In the repository a reader sees a command: ``help`` stands around ``gpu-envs NAME --help``, ``settings NAME`` around the
command that lists the settings of an algorithm, and pages of environments name the command that prints their tables.
Tutorials name the parts of the scripts.
"""

import functools
import json
import subprocess
import sys

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docs.scripts import commands, generate, notebook, tables

PAGES = ("algorithms/", "envs/", "guides/command_line", "tutorials/libraries/")


class Help(SphinxDirective):
    """Shows the help of a command."""

    has_content = True

    def run(self):
        """Return the output of the command as a block."""
        (command,) = self.content
        text = commands.help_text(*command.removeprefix("gpu-envs ").removesuffix(" --help").split())
        return [nodes.literal_block(text, text, language="text")]


class Settings(SphinxDirective):
    """Shows the settings of an algorithm."""

    has_content = True
    required_arguments = 1

    def run(self):
        """Return the table of settings with their defaults and meanings."""
        return self.parse_text_to_nodes(generate.options(self.arguments[0]))


def _outdated(app, env, added, changed, removed):
    return sorted(name for name in env.found_docs if name.startswith(PAGES))  # the code may have changed


@functools.cache
def environment_pages():
    """Return the pages of environments by name, from another process: here Warp's structs are plain classes."""
    command = [sys.executable, "-m", "docs.scripts.generate", "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=tables.ROOT).stdout)


def _fill(app, docname, content):
    if docname.startswith("envs/"):
        content[0] = environment_pages()[docname.removeprefix("envs/")]
    elif docname.startswith("tutorials/"):
        content[0] = notebook.filled(content[0])


def setup(app):
    """Register the directives and the tables; their pages are read at every build."""
    app.add_directive("help", Help)
    app.add_directive("settings", Settings)
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
