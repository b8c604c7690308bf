"""Sphinx's settings."""

project = "jobboard"
author = "the jobboard engineers"
copyright = "the jobboard engineers"
extensions = ["sphinx.ext.autodoc"]
html_theme = "alabaster"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False
