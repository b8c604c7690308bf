"""The login that all threads of a client of etcd share."""

from __future__ import annotations

from jobboard.backends.etcd.http_session import Login
from jobboard.backends.etcd.options import Settings


def test_a_login_stays_in_doubt_until_there_is_another_one() -> None:
    tokens = iter(["first", "second"])
    login = Login(Settings((("localhost", 2379),), False, "alice", "secret"), lambda _: next(tokens))
    login.renew(None)
    login.doubt("first")
    # A request for the time, or for another login, got no reply either.
    login.doubt(None)
    assert login.is_in_doubt
    login.renew("first")
    assert (login.token, login.is_in_doubt) == ("second", False)
