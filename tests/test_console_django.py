"""The recipe for Django, as it stands in the documentation: Django's users, and its own pages beside the console."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

SITE = """
import runpy, sys
sys.path.insert(0, {tests!r})
from django.conf import settings
settings.configure(
    SECRET_KEY="x", ALLOWED_HOSTS=["localhost"], ROOT_URLCONF=__name__,
    DATABASES={{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "site.db"}}}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
)
recipe = runpy.run_path({recipe!r})
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.core.management import call_command
from django.http import HttpResponse
from django.urls import path
urlpatterns = [path("hello", lambda request: HttpResponse("Django"))]
call_command("migrate", verbosity=0)

def cookie_of(name, **options):
    user = get_user_model().objects.create_user(name, password="p", **options)
    session = SessionStore()
    session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.save()
    return {{"Cookie": f"sessionid={{session.session_key}}"}}

from helpers.console import SAME_SITE, Asking
ask = Asking(recipe["application"])
cookies = [{{}}, cookie_of("eve"), cookie_of("bob", is_staff=True), cookie_of("ann", is_staff=True, is_superuser=True)]
assert [ask.get("/jobs/b/orders/jobs", headers=cookie).status_code for cookie in cookies] == [403, 403, 200, 200]
board = recipe["board"]
job = board.post("mail")
board.trash(job, by="worker")
for cookie, status in zip(cookies, (403, 403, 403, 200)):
    answer = ask.post(f"/jobs/b/orders/jobs/{{job.uuid}}", {{"action": "restore"}}, headers=cookie | SAME_SITE)
    assert answer.status_code == status
assert board.get(job.uuid).history[-1].who == "ann"
assert ask.get("/hello").text == "Django"
assert ask.get("/jobs/b/orders/jobs", headers=cookies[3] | {{"Host": "evil.example"}}).status_code == 403
board.close()
print("all well")
"""


def test_the_recipe_for_django_works(tmp_path: Path) -> None:
    recipe = ROOT / "doc" / "examples" / "console_django.py"
    (tmp_path / "shop.py").write_text(SITE.format(tests=str(ROOT / "tests"), recipe=str(recipe)))
    command = [sys.executable, "-W", "ignore", "shop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert (done.stdout, done.returncode) == ("all well\n", 0), done.stderr
