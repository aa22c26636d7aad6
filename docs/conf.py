"""Settings of the site: `make docs` builds it into out/docs, with warnings as errors."""

import os
import tomllib
from pathlib import Path

from docs.site.reference import VERSION

OUT = Path(__file__).parents[1] / "out"

project = "gpu-envs"
author = "The gpu-envs contributors"
copyright = "The gpu-envs contributors, Apache-2.0"
release = version = VERSION

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.linkcode",
    "sphinx.ext.napoleon",
    "docs.site.access",
    "docs.site.filled_parts",
    "docs.site.keywords",
    "docs.site.listings",
    "docs.site.mathml",
    "docs.site.notebooks",
    "docs.site.reference",
]

# Pages: Markdown that also reads well in the repository. Links between them are checked, anchors included.
nitpicky = True
myst_heading_anchors = 4
myst_fence_as_directive = ["math"]  # so that "```math" is an equation here and on GitHub
highlight_language = "text"
smartquotes = False  # "cpu" is a value

# Tutorials with code cells are run, each in a folder of its own.
nb_execution_mode = "force"
nb_execution_timeout = 600
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_merge_streams = True

# Commands of tutorials (lines with "!") run in the kernel and stop the build if they fail.
os.environ["IPYTHONDIR"] = str(OUT / "ipython")
STARTUP = OUT / "ipython" / "profile_default" / "startup" / "commands.py"
STARTUP.parent.mkdir(parents=True, exist_ok=True)
STARTUP.write_text("from docs.scripts.notebook import command\n\nget_ipython().system = command\n")

# Reference: signatures and docstrings. The types of other libraries are named, not linked.
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_mock_imports = [
    "benchmarl", "lightning", "mlflow", "ray", "skrl", "stable_baselines3", "tensordict", "torchrl", "wandb",
]  # fmt: skip
add_module_names = False
default_role = "code"
maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
OTHERS = (
    "abc|array|ast|benchmarl|collections|contextlib|dataclasses|gymnasium|lightning|matplotlib|np|numpy|pathlib|pettingzoo|scipy|"
    "sqlite3|stable_baselines3|torch|torchrl|types|warp|weakref|wp|"
    "AECEnv|Composite|EnvBase|Figure|MultiOneHot|OneHot|Tensor|float32|int32|int64|signal|vec2f|vec3f|vec3ub"
)
nitpick_ignore_regex = [
    (r"py:.*", rf"({OTHERS})(\..+)?"),
    (r"py:class", r"(ndim|dtype)=.*"),  # of Warp's arrays
    (r"py:class", r"gpu_envs\.views\.benchmarl\._Tasks"),  # private, the type of a public name
    (r"py:.*", r"([\w.]+\.)?([A-Z]|Cfg|One|SingleStream)"),  # type variables, and names of unions
]

# Looks: no font, script or picture from elsewhere.
html_theme = "furo"
html_title = "gpu-envs"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_js_files = ["code.js"]
html_favicon = "site/static/favicon.svg"
html_search_scorer = str(Path(__file__).with_name("site") / "static" / "search.js")
templates_path = ["site/templates"]
PROJECT = tomllib.loads((OUT.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
html_context = {"repository": PROJECT.get("urls", {}).get("Repository")}  # None: the listings of the site
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "repository.html",
        "sidebar/scroll-end.html",
    ]
}
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
