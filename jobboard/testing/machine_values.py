"""What the histories of :class:`~jobboard.testing.machine.BoardMachine` are made of."""

from __future__ import annotations

from hypothesis import strategies as st

from jobboard.states import JobPriority

NAMES = ["resize", "größe/{a}*", "with spaces"]
OWNERS = ["alice", "bob"]
KEYS = ["k", "k/2"]
LANES = ["tenant:1", "größe/{a} 100%:x:1"]
FAR = 86_400.0
#: With more jobs than this, a history would hardly ever do two things to one of them.
FEW = 4

names = st.sampled_from(NAMES)
owners = st.sampled_from(OWNERS)
keys = st.sampled_from(KEYS)
lanes = st.sampled_from([None, *LANES])
picks = st.integers(0, 20)
clients = st.integers(0, 1)
contents = st.integers(0, 9)
priorities = st.sampled_from(JobPriority)
mosts = st.sampled_from([None, 1, 2])
filters = st.none() | st.sets(names, max_size=2)
