"""The work of libraries that find a function by its module's name."""

from measuring import picked_up, ran


def no_op() -> None:
    ran()


def ping(at: float) -> None:
    picked_up(at)
