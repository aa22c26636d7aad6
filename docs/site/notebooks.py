"""Pages with cells are run at every build, also if only the code of the project has changed."""

from docs.scripts import notebook


def _outdated(app, env, added, changed, removed):
    names = {app.project.path2doc(str(path)) for path in notebook.notebooks() if notebook.executed(path)}
    return sorted(names & env.found_docs)


def setup(app):
    """Add the pages to those that the build reads."""
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
