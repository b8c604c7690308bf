"""The web console: an ASGI app over one or several boards; needs the extra ``jobboard[console]``."""

from __future__ import annotations

from jobboard.errors import MissingExtra

try:
    import jinja2  # noqa: F401, whether it is there
    import starlette  # noqa: F401, whether it is there
except ModuleNotFoundError as error:
    text = f"the console needs the Python package {error.name!r}: pip install 'jobboard[console]'"
    raise MissingExtra(text) from None

from jobboard.console.application import app
from jobboard.console.rights import RIGHTS, allow

__all__ = ["RIGHTS", "allow", "app"]
