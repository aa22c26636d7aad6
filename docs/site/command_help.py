"""Directives for blocks with a command, which the site replaces with what the command prints.

In the repository a reader sees the command: ``help`` stands around ``gpu-envs NAME --help``, and ``settings NAME``
around the command that lists the settings of an algorithm.
"""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docs.scripts import commands, generate

PAGES = ("algorithms/", "guides/command_line")


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
    return sorted(name for name in env.found_docs if name.startswith(PAGES))  # the options may have changed


def setup(app):
    """Register the directives; their pages are read at every build."""
    app.add_directive("help", Help)
    app.add_directive("settings", Settings)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
