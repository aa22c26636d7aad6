"""Extension of Sphinx that writes the pages of the reference and documents Warp's structs from their source.

Warp makes objects of them that no longer know their source, so its decorators do nothing here: nothing is launched.
"""

import importlib
import re

import warp as wp
from sphinx.ext.napoleon import GoogleDocstring


def _as_written(function=None, **_):
    return function if function is not None else lambda function: function


wp.struct = wp.func = wp.kernel = _as_written
VERSION = importlib.import_module("gpu_envs").__version__  # only now, and before anything else imports it


def _plain(self, preprocess_types=False):
    return [("", "", self._dedent(self._consume_to_next_section()))]


def _signature(app, what, name, obj, options, signature, returns):
    return signature and re.sub(r"<[\w. ]+>", "...", signature), returns  # a default that no source could say


def _documented(app, env, node, text):
    """Link a name that a package exports, or an inherited method, to the module or class that defines it."""
    target = node.get("reftarget", "")
    owner, attributes = target, []
    while "." in owner:
        owner, _, last = owner.rpartition(".")
        attributes.insert(0, last)
        try:
            member = importlib.import_module(owner)
        except ImportError:
            continue
        for name in attributes:
            member = getattr(member, name, None)
        full = f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"
        if full != target:
            return env.get_domain("py").resolve_xref(
                env, node.get("refdoc"), app.builder, node.get("reftype"), full, node, text
            )
        break
    return None


def _write(app):
    from docs.scripts import reference  # imports gpu_envs

    reference.write()


def setup(app):
    """Keep text before a colon in docstrings: Napoleon reads it as a type, and types are annotated."""
    GoogleDocstring._parse_attribute_docstring = lambda self: [*self._lines]
    GoogleDocstring._consume_returns_section = _plain
    app.connect("builder-inited", _write)  # before Sphinx looks for pages
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _documented)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
