"""Sphinx's settings."""

project = "jobboard"
author = "the jobboard engineers"
copyright = "the jobboard engineers"
extensions = ["sphinx.ext.autodoc", "sphinx_copybutton"]
html_theme = "furo"
html_title = "jobboard"
html_static_path = ["_static"]
exclude_patterns = ["_build"]
# A block without a language is shell, a configuration or a program's output: nothing that Python's colours suit.
highlight_language = "text"
copybutton_exclude = ".linenos, .gp, .go"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False
