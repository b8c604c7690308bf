"""The login of a user, which all threads of a client share, and its renewal by one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jobboard.backends.etcd.errors import LoginExpired, refused_login
from jobboard.backends.etcd.options import Settings
from jobboard.backends.locks import lock_within


class Login:
    """Without a user in the settings there is none, and ``token`` stays None.

    :param authenticate: sends a name and a password, and returns a token.
    """

    def __init__(self, settings: Settings, authenticate: Callable[[dict[str, Any]], str]) -> None:
        self._settings, self._authenticate = settings, authenticate
        self._lock = threading.Lock()
        #: What etcd gave for the password. It stays until there is another one, since other threads send it meanwhile.
        self.token: str | None = None

    @property
    def has_user(self) -> bool:
        """Whether a user is configured."""
        return self._settings.username is not None

    def renew(self, expired: str | None) -> None:
        """Log in, unless another thread has done so since ``expired`` was the token.

        :raises BoardUnavailable: it is refused, can't be sent, or another thread has waited for it for too long.
        """
        settings = self._settings
        with lock_within(self._lock, settings.timeout, "etcd does not answer another thread, which logs in"):
            if self.token == expired:
                try:
                    self.token = self._authenticate({"name": settings.username, "password": settings.password})
                except LoginExpired as error:
                    raise refused_login(error) from None
