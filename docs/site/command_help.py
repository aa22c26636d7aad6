"""Directive ``help``: a block with a command, ``gpu-envs NAME --help``, which the site replaces with its output."""

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from docs.scripts import commands

PAGE = "guides/command_line"


class Help(SphinxDirective):
    """Shows the help of a command."""

    has_content = True

    def run(self):
        """Return the output of the command as a block."""
        (command,) = self.content
        text = commands.help_text(*command.removeprefix("gpu-envs ").removesuffix(" --help").split())
        return [nodes.literal_block(text, text, language="text")]


def _outdated(app, env, added, changed, removed):
    return sorted({PAGE} & env.found_docs)  # the options may have changed


def setup(app):
    """Register the directive; the page of commands is read at every build."""
    app.add_directive("help", Help)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
