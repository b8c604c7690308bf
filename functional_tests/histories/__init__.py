"""Random histories under faults: processes that work on a board, a nemesis, and a checker of what they wrote down.

``python -m functional_tests.histories --help`` says how to run one.
"""

from __future__ import annotations

import sys
from pathlib import Path

# The servers and the proxy are plain modules of the folder above, as pytest sees them too.
_ABOVE = str(Path(__file__).parent.parent)
if _ABOVE not in sys.path:
    sys.path.append(_ABOVE)
