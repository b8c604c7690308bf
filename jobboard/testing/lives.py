"""The lives that :mod:`jobboard.testing.differential` leads: fixed ones for each rule, and random ones."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

#: A delay that ends within a request or two, and one that never ends here, in seconds.
BRIEF, LONG = 0.003, 600.0

TEXTS = (None, None, "", "why", "a longer text, with ü")
OWNERS = ("alice", 'it\'s "bob"', "Zoë \\ \u00a0x")
#: Later: a delay in seconds, or a moment that is this many seconds from now.
LATERS: tuple[dict[str, float], ...] = (
    {}, {}, {}, {"delay": LONG}, {"delay": BRIEF}, {"run_at": -LONG}, {"run_at": LONG},
)  # fmt: skip


#: What lives are made of: requests that follow each other often enough to lead somewhere, and how they end.
FRAGMENTS = [
    part.split()
    for part in (
        "claim", "claim_next claimed_under", "claim extend", "claim checkpoint extend", "claim shorten", "shorten",
        "claim shorten claim shorten restore", "claim abandon", "claim abandon abandon", "abandon", "claim two_ends",
        "claim trash trash restore", "claim release release", "claim cancel force restore claim",
        "force restore restore", "run_now", "claim abandon run_now run_now claim", "claim run_now",
        "reprioritize reprioritize claim reprioritize", "claim abandon reprioritize run_now", "force reprioritize",
        "claim cancel trash cancel restore", "force rival restore rival_cancel restore",
        "pause pause claim resume resume", "replace replace", "replace claim", "keep", "post",
        "restore", "purge", "release", "force restore claim",
    )
]  # fmt: skip
#: What is about the jobs' lane, and the limit of a name.
LANE_FRAGMENTS = [
    part.split()
    for part in (
        "limit_lane", "limit_lane limit_lane claim", "claim limit_lane abandon", "limit_lane claim_next",
        "limit_name claim", "limit_name limit_name", "claim limit_name abandon claim_next", "claim_next",
        "claim abandon run_now limit_lane",
    )
]  # fmt: skip
#: What is about parents and children, steps, signals and moments.
EDGE_FRAGMENTS = [
    part.split()
    for part in (
        "claim wait signal claim", "signal claim wait claim", "claim wait wait signal", "claim wait_briefly claim",
        "signal signal", "claim save save", "claim save abandon claim save", "link", "claim link link", "restore",
        "claim wait force restore claim", "claim wait cancel signal", "claim cancel wait",
        "force restore claim consume",
        "claim end_with_posts", "claim consume keep", "claim consume rival", "claim end_with_posts end_with_posts",
        "claim trash_with_posts", "force purge link", "cancel", "claim consume", "claim wait replace signal", "replace",
        "claim wait reprioritize run_now signal", "claim shorten", "post",
        "claim take abandon claim", "claim take take release abandon", "claim take shorten", "claim take force restore",
        "claim take wait signal", "take",
    )
]  # fmt: skip
#: How a job of a family begins: as it is, with a key that is kept, with a latest moment, or one by which it must begin.
POSTS = ("post", "post", "post_with_window", "post_with_latest", "post_to_begin", "post_too_late")
ENDINGS = [
    part.split()
    for part in (
        "claim consume", "claim consume consume", "claim cancel abandon cancel", "claim cancel shorten cancel",
        "claim cancel release", "cancel cancel post", "force purge purge", "trash", "consume", "extend",
        "claim consume force", "claim cancel abandon force",
    )
]  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request of a life; each kind takes from this what it needs.

    ``job``: which of the jobs of the life it is about.
    ``grant``: which of the claims of this job it is about, the last one is -1; 99: one that never was.
    ``who``: somebody else than the owner of that claim, if not None. ``by``: who claims. ``operator``: who does what
    operators do, if anybody says.
    """

    kind: str
    grant: int
    who: str | None
    by: str
    operator: str | None
    reason: str | None
    error: str | None
    counted: bool
    later: dict[str, float]
    data: bytes | None
    expiry: float
    retention: float
    priority: int
    most: int | None
    job: int = 0

    @property
    def is_brief(self) -> bool:
        """Whether something ends within moments after it."""
        if self.kind in ("consume", "end_with_posts"):
            return self.retention == BRIEF
        if self.kind in ("wait_briefly", "post_to_begin"):
            return True
        posts = ("post", "post_with_window", "post_with_latest", "post_too_late")
        kinds = (*posts, "rival", "keep", "replace", "abandon", "two_ends")
        is_delayed = self.kind in kinds and BRIEF in self.later.values()
        return is_delayed or self.kind == "shorten"


def random_life(random: random.Random) -> list[Request]:
    """Draw a life; most of its requests are about the present claim."""
    parts = [["post"], *random.choices(FRAGMENTS, k=random.randint(3, 6)), random.choice(ENDINGS)]
    return [_random_request(random, kind) for part in parts for kind in part]


def random_lives_of_three(random: random.Random) -> list[Request]:
    """Draw the lives of three jobs, told in one story: each part is about one of them."""
    parts = [(0, ["limit_lane"]), *((job, ["post"]) for job in range(3))]
    some = random.choices([*FRAGMENTS, *LANE_FRAGMENTS, *LANE_FRAGMENTS], k=random.randint(5, 9))
    parts += [(random.randrange(3), part) for part in some]
    parts += [(random.randrange(3), random.choice(ENDINGS))]
    return [*(_random_request(random, kind, job) for job, part in parts for kind in part), *_cancel_all()]


def random_lives_of_a_family(random: random.Random) -> list[Request]:
    """Draw the lives of three jobs, each of which waits for those before it."""
    parts = [(job, [random.choice(POSTS)]) for job in range(3)]
    some = random.choices([*FRAGMENTS, *EDGE_FRAGMENTS, *EDGE_FRAGMENTS], k=random.randint(5, 9))
    parts += [(random.choice((0, 0, 1, 2)), part) for part in some]
    parts += [(job, random.choice(ENDINGS)) for job in random.sample(range(3), 2)]
    return [*(_random_request(random, kind, job) for job, part in parts for kind in part), *_cancel_all()]


def _cancel_all() -> list[Request]:
    """End the lives of three jobs: what they leave in their lane takes no turn of the claims of later lives."""
    return [replace(PLAIN, kind=kind, job=job) for job in range(3) for kind in ("cancel", "rival_cancel")]


def _random_request(random: random.Random, kind: str, job: int = 0) -> Request:
    return Request(
        kind=kind,
        grant=random.choice([-1] * 10 + [0, 99]),
        who=random.choice([None] * 12 + ["somebody else"]),
        by=random.choice(OWNERS),
        operator=random.choice((None, *OWNERS)),
        reason=random.choice(TEXTS),
        error=random.choice(TEXTS),
        counted=random.random() < 0.6,
        later=random.choice(LATERS),
        data=random.choice([None, b"", b"x", b"y" * 9]),
        expiry=random.choice([LONG, LONG, float("inf")]),
        retention=random.choice([0.0, LONG, BRIEF]),
        priority=random.randint(1, 5),
        most=random.choice([None, 1, 1, 2]),
        job=job,
    )


#: Requests about the key.
KEYED = frozenset({"rival", "rival_cancel", "replace", "keep"})


def plain_life(life: Sequence[Request]) -> list[Request]:
    """Return what is left of a life without its key, with ``claim_next`` in place of every ``claim``."""
    return [
        replace(request, kind="claim_next" if request.kind == "claim" else request.kind)
        for request in life
        if request.kind not in KEYED
    ]


#: The values of the fixed lives: a plain job, one whose only attempt fails, and one that is put back for later.
PLAIN = Request(
    "post", grant=-1, who=None, by=OWNERS[0], operator=OWNERS[1], reason="why", error=None, counted=True, later={},
    data=b"x", expiry=LONG, retention=LONG, priority=3, most=None,
)  # fmt: skip
VARIANTS = (
    PLAIN,
    replace(PLAIN, by=OWNERS[1], operator=OWNERS[2], reason=None, retention=0.0, most=1),
    replace(
        PLAIN,
        operator=None,
        reason="",
        error="",
        counted=False,
        later={"delay": LONG},
        data=None,
        expiry=float("inf"),
        most=2,
    ),
)
REFUSED = ("extend", "checkpoint", "consume", "abandon", "trash", "release")
#: Whose requests about a claim are refused: another owner, one with a token that never was, and the same owner with the
#: token of an earlier claim.
STRANGERS = (replace(PLAIN, who="somebody else"), replace(PLAIN, grant=99), replace(PLAIN, grant=0))
CLAIMED_TWICE = ("claim", "abandon", "claim")


def fixed_lives() -> list[list[Request]]:
    """Return one life for each fragment, ending and variant, so that each rule is applied in every run."""
    lives = [
        [replace(values, later={}), *_requests(values, part)] for values in VARIANTS for part in (*FRAGMENTS, *ENDINGS)
    ]
    return lives + [[PLAIN, *_requests(PLAIN, CLAIMED_TWICE), *_requests(values, REFUSED)] for values in STRANGERS]


def fixed_lives_of_three() -> list[list[Request]]:
    """Return for each fragment and ending the lives of three jobs of a lane with one slot.

    The first one has that part, the second one is claimed and consumed after it, and the third one after that, so far
    as they can be.
    """
    limit = replace(PLAIN, kind="limit_lane", most=1)
    posts = [limit, *(replace(PLAIN, job=job) for job in range(3))]
    others = [replace(PLAIN, kind=kind, job=job) for job in (1, 2) for kind in ("claim", "consume")]
    firsts = [(PLAIN, part) for part in (*FRAGMENTS, *ENDINGS)]
    firsts += [(values, part) for values in VARIANTS for part in LANE_FRAGMENTS] + [
        (VARIANTS[2], ["claim", "abandon", "run_now"])
    ]
    return [[*posts, *_requests(values, part), *others, *_cancel_all()] for values, part in firsts]


def fixed_lives_of_a_family() -> list[list[Request]]:
    """Return for each fragment about edges the lives of three jobs, each of which waits for those before it.

    The first one has that part; then each is claimed and consumed, and restored before it, so far as it can be.
    """
    lives: list[list[Request]] = []
    for values in (replace(variant, later={}) for variant in VARIANTS):
        posts = [replace(values, job=job) for job in range(3)]
        rest = [replace(values, kind=kind, job=job) for job in range(3) for kind in ("restore", "claim", "consume")]
        # Much of the others is the same whatever the values are.
        parts = [part for part in EDGE_FRAGMENTS if not lives or "wait" in part or "end_with_posts" in part]
        lives += [[*posts, *_requests(values, part), *rest, *_cancel_all()] for part in parts]
    values = VARIANTS[0]
    return lives + [
        [replace(values, kind=kind), *posts[1:], *_requests(values, ["claim", "consume", "keep"]), *rest]
        for kind in POSTS[1:]
    ]


def _requests(values: Request, kinds: Sequence[str]) -> list[Request]:
    return [replace(values, kind=kind) for kind in kinds]
