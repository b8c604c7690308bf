"""Sphinx's settings."""

from __future__ import annotations

from sphinx.application import Sphinx

project = "jobboard"
author = "the jobboard engineers"
copyright = "the jobboard engineers"
extensions = ["sphinx.ext.autodoc", "sphinx_click", "sphinx_copybutton"]
html_theme = "furo"
html_title = "jobboard"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
exclude_patterns = ["_build"]
# A block without a language is shell, a configuration or a program's output: nothing that Python's colours suit.
highlight_language = "text"
copybutton_exclude = ".linenos, .gp, .go"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# One argument a line, where they do not fit into one.
maximum_signature_line_length = 88
nitpicky = False


def setup(app: Sphinx) -> None:
    app.connect("sphinx-click-process-epilog", show_epilog_as_it_is)


def show_epilog_as_it_is(_app: Sphinx, _context: object, lines: list[str]) -> None:
    """Examples in help texts are no reStructuredText."""
    lines[:] = [
        "",
        ".. code-block:: text",
        "",
        *(f"   {line.removeprefix('|').removeprefix(' ')}" for line in lines),
        "",
    ]
