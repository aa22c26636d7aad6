"""Links to files of the repository lead to listings: a page per file, in color, with a name for every line.

The pages are Markdown that also reads well in the repository, so they link to files as files. In the site such a link
gets the listing, in ``source/``; so do the "source" links of the reference.
"""

import importlib
import inspect
import lzma
import os
from html import escape
from pathlib import Path

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).resolve().parents[2]
PAGES = {ROOT / "README.md": "index"} | {
    ROOT / f"{name}.md": name.lower() for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")
}
"""Pages of the repository that are pages of the site as well."""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{path}</title>
<link rel="stylesheet" href="{up}_static/pygments.css"><link rel="stylesheet" href="{up}_static/styles/furo.css">
<link rel="stylesheet" href="{up}_static/site.css"><link rel="icon" href="{up}_static/favicon.svg"></head>
<body class="listing"><script>document.body.dataset.theme = localStorage.getItem("theme") || "auto"</script>
<header><a href="{up}index.html">gpu-envs</a> {crumbs}</header><main>{body}</main></body></html>
"""


class Links(SphinxTransform):
    """Turns links to files and folders of the repository into links to listings."""

    default_priority = 5  # before Sphinx takes them for downloads

    def apply(self):
        """Go through the links of a page."""
        kinds = (addnodes.download_reference, addnodes.pending_xref)
        references = self.document.findall(lambda node: isinstance(node, kinds) and node.get("reftype") == "myst")
        for node in list(references):
            path, _, _ = node["reftarget"].partition("#")
            target = (Path(self.env.doc2path(self.env.docname)).parent / path).resolve()
            if not target.exists() and self.env.docname in PAGES.values():
                target = ROOT / path  # the page is that of the root
            if target in PAGES:
                uri = self.app.builder.get_relative_uri(self.env.docname, PAGES[target])
            elif node.get("refdomain") is None and path and target.exists():
                uri = _uri(self.app, self.env.docname, target)
            else:
                continue
            node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def _uri(app, docname, path):
    """Return the link from a page to a listing and request the listing."""
    app.env.listings.setdefault(docname, set()).add(path)
    return app.builder.get_relative_uri(docname, f"source/{_name(path)}")


def _name(path):
    relative = path.relative_to(ROOT)
    return (relative / "index").as_posix() if path.is_dir() else relative.as_posix()


def _wanted(app):
    """Return the files and folders that get a listing: those that pages link to, and the folders around them."""
    linked = set().union(*app.env.listings.values())
    around = {folder for path in linked for folder in path.parents if folder.is_relative_to(ROOT)}
    return linked | around | {path for path in _files(ROOT) if path not in PAGES}


def _files(folder):
    return [path for path in folder.iterdir() if path.is_file() and not path.name.startswith(".")]


def link_source(app, domain, info):
    """Return the link to the source line of a symbol of the reference, or None without a source."""
    member = module = importlib.import_module(info["module"])
    try:
        for part in info["fullname"].split("."):
            member = getattr(member, part)
        member = inspect.unwrap(member.fget if isinstance(member, property) else member)
        path, line = Path(inspect.getsourcefile(member)), inspect.getsourcelines(member)[1]
    except (AttributeError, TypeError, OSError, ValueError):
        path, line = Path(module.__file__), 0  # a constant, a field, or what stands for a library: the module
    if not path.is_relative_to(ROOT) or ".venv" in path.parts:
        return None
    return _uri(app, app.env.docname, path) + (f"#line-{line}" if line else "")


def write(app, failure):
    """Write every listing that a page links to."""
    if failure or app.builder.format != "html":
        return
    for path in sorted(_wanted(app)):
        page = Path(app.outdir, "source", f"{_name(path)}.html")
        page.parent.mkdir(parents=True, exist_ok=True)
        up = os.path.relpath(app.outdir, page.parent) + "/"
        body = _folder(app, path, page) if path.is_dir() else _file(path)
        name = escape("source" if path == ROOT else str(path.relative_to(ROOT)))
        page.write_text(PAGE.format(path=name, up=up, crumbs=name, body=body), encoding="utf-8")


def _file(path):
    is_packed = path.suffix == ".xz"
    text = (lzma.decompress(path.read_bytes()) if is_packed else path.read_bytes()).decode("utf-8")
    try:
        lexer = get_lexer_for_filename(path.stem if is_packed else path.name)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(text, lexer, HtmlFormatter(linespans="line")).replace("<pre>", '<pre tabindex="0">', 1)


def _folder(app, path, page):
    """Return the names of a folder: its subfolders with listings, and its files, as links to pages and listings."""
    rows, linked = [], _wanted(app)
    folders = [entry for entry in path.iterdir() if entry.is_dir() and entry in linked]
    for entry in [*sorted(folders), *sorted(_files(path))]:
        page_of = PAGES.get(entry) or app.env.path2doc(entry)
        name = page_of if page_of in app.env.found_docs else f"source/{_name(entry)}" if entry in linked else None
        target = name and os.path.relpath(Path(app.outdir, f"{name}.html"), page.parent)
        label = escape(f"{entry.name}/" if entry.is_dir() else entry.name)
        rows.append(f'<li><a href="{target}">{label}</a></li>' if target else f"<li>{label}</li>")
    return f"<ul>{''.join(rows)}</ul>"


def _begin(app):
    if not hasattr(app.env, "listings"):
        app.env.listings = {}
    app.config.linkcode_resolve = lambda domain, info: link_source(app, domain, info)


def _forget(app, env, docname):
    env.listings.pop(docname, None)


def _merge(app, env, docnames, other):
    env.listings |= {name: other.listings[name] for name in docnames if name in other.listings}


def setup(app):
    """Enter the transform, and the keeping of what is wanted."""
    app.add_transform(Links)
    app.connect("builder-inited", _begin)
    app.connect("env-purge-doc", _forget)
    app.connect("env-merge-info", _merge)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
