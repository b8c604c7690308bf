"""Labels of what others have named: every poster chooses names, so only some of them get series of their own."""

from __future__ import annotations

#: How many names of jobs do.
MAX_NAMES = 200
#: What the further ones count as.
OTHER = "other"


class BoundedLabels:
    """Remembers the first names, and gives all others one label."""

    def __init__(self, most: int = MAX_NAMES) -> None:
        self._most = most
        self._names: set[str] = set()

    def __call__(self, name: str) -> str:
        """Return the name itself or ``other``; for one name always the same."""
        if name not in self._names:
            if len(self._names) >= self._most:
                return OTHER
            self._names.add(name)
        return name
