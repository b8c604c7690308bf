"""The console beside a Django site: its staff may look, its superusers bring jobs back and end claims."""

from importlib import import_module

from django.core.asgi import get_asgi_application

site = get_asgi_application()

from django.conf import settings  # noqa: E402, Django is set up now
from django.contrib.auth import get_user  # noqa: E402
from django.db import close_old_connections  # noqa: E402
from django.http import HttpRequest  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.routing import Mount  # noqa: E402

from jobboard import fetch  # noqa: E402
from jobboard.console import app as console  # noqa: E402


def user_of(request):
    """Return the user of Django's session; the console asks in a thread, where Django may ask its database."""
    close_old_connections()
    asked = HttpRequest()
    engine = import_module(settings.SESSION_ENGINE)
    asked.session = engine.SessionStore(request.cookies.get(settings.SESSION_COOKIE_NAME))
    return get_user(asked)


def access(request):
    user = user_of(request)
    if not (user.is_active and user.is_staff):
        return None
    return {"restore", "release"} if user.is_superuser else set()


board = fetch("orders", "sqlite:///jobs.db")
jobs = console(board, access=access, who=lambda request: user_of(request).username, hosts=settings.ALLOWED_HOSTS)
application = Starlette(routes=[Mount("/jobs", jobs), Mount("/", site)])
