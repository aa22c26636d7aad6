"""Pages for readers with a keyboard or a screen reader: levels of the headings in the navigation."""


def _levels(app, pagename, templatename, context, doctree):
    """Give captions of the navigation the level that their role needs."""
    for name in ("furo_navigation_tree", "body"):
        if isinstance(context.get(name), str):
            context[name] = context[name].replace('role="heading">', 'role="heading" aria-level="2">')


def setup(app):
    """Change pages after the theme has added its navigation."""
    app.connect("html-page-context", _levels, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
