"""Sphinx's settings."""

project = "jobboard"
author = "the jobboard engineers"
copyright = "the jobboard engineers"  # noqa: A001, Sphinx's name
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False
