"""Search words of environments: a page is also found by the words of its id, as "simple tag" for SimpleTag-v0."""

import re

from docutils import nodes


def words_of(env_id):
    """Return the words of an id for the index of the search: "SimpleTag-v0" gives "simple, tag, simpletag"."""
    name = env_id.rpartition("-v")[0]
    return ", ".join([*re.findall(r"[A-Z][a-z]*|\d+", name), name]).lower()


def _add(app, doctree):
    if app.env.docname.startswith("envs/"):
        title = next(iter(doctree.findall(nodes.title))).astext()
        doctree.insert(0, nodes.meta(name="keywords", content=words_of(title), lang="en"))


def setup(app):
    """Add the words when a page has been read."""
    app.connect("doctree-read", _add)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
