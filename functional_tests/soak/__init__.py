"""Conductors and schedulers at work for a long time: what they and their store hold must stay flat.

``python -m functional_tests.soak --help`` says how to run one.
"""

from __future__ import annotations

import sys
from pathlib import Path

# The servers and the histories' stores are found in the folder above, as pytest sees them too.
_ABOVE = str(Path(__file__).parent.parent)
if _ABOVE not in sys.path:
    sys.path.append(_ABOVE)
