"""Pages for readers with a keyboard or a screen reader: levels of headings, and parameters as lists."""

import re

PARAMETERS = re.compile(r'<dl>\s*(?:<dd><em class="sig-param">.*?</dd>\s*)+</dl>', re.DOTALL)
"""The parameters of a signature with a line for each: a list of descriptions without terms."""


def accessible(html):
    """Return HTML of a page with the roles and levels that are missing in it."""
    html = html.replace('role="heading">', 'role="heading" aria-level="2">')
    return PARAMETERS.sub(
        lambda match: match[0].replace("<dl>", '<dl role="list">').replace("<dd>", '<dd role="listitem">'), html
    )


def _change(app, pagename, templatename, context, doctree):
    for name in ("furo_navigation_tree", "body"):
        if isinstance(context.get(name), str):
            context[name] = accessible(context[name])


def setup(app):
    """Change pages after the theme has added its navigation."""
    app.connect("html-page-context", _change, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
