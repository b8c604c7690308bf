"""The pytest plug-in, as pytest finds it by its entry point in a project of its own."""

from __future__ import annotations

import pytest

# What a run in this process imports first it takes back at its end; a second copy of these would not fit the first.
import jobboard.schedules.triggers
import jobboard.testing.due
import jobboard.testing.kit  # noqa: F401

CONFTEST = """
    import pytest
    from jobboard import Handlers

    handlers = Handlers()

    @handlers.handler("add")
    def add(job):
        return sum(job.details["numbers"])

    @handlers.handler("fail")
    def fail(job):
        raise LookupError("no such order")

    @pytest.fixture
    def jobboard_handlers():
        return handlers
"""

TESTS = """
    import pytest
    from jobboard import Every, Schedule

    def test_a_job_is_posted_and_run(jobboard_board, drain, posted, refuse):
        job = jobboard_board.post("add", details={"numbers": [1, 2]})
        assert posted("add", details={"numbers": [1, 2]}) == job
        refuse("fail")
        assert drain() == [job]
        assert job.result == 3

    def test_each_test_has_a_board_of_its_own(jobboard_board):
        assert jobboard_board.job_count == 0

    def test_what_a_handler_raises_is_raised(jobboard_board, drain):
        jobboard_board.post("fail")
        with pytest.raises(LookupError):
            drain()

    def test_the_handlers_may_be_given(jobboard_board, drain):
        from jobboard import Handlers
        others = Handlers()
        others.add("other", lambda job: "done")
        job = jobboard_board.post("other")
        drain()
        assert job.state == "UNCLAIMED"
        drain(others)
        assert job.result == "done"

    @pytest.mark.usefixtures("jobboard_inline")
    def test_inline(jobboard_board):
        assert jobboard_board.post("add", details={"numbers": [1]}).result == 1
"""

TESTS_OF_TIME = """
    from jobboard import Every, Schedule

    def test_time_is_moved(jobboard_board, jobboard_clock, drain):
        jobboard_board.schedules.add(Schedule("often", Every(minutes=5), "add", details={"numbers": [1]}))
        assert drain() == []
        jobboard_clock.move(300)
        (job,) = drain()
        assert job.schedule_id == "often"
"""


def test_the_fixtures_do_what_they_say(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_fixtures=TESTS, test_time=TESTS_OF_TIME)
    pytester.runpytest_subprocess("--strict-config", "-W", "error").assert_outcomes(passed=6)


def test_the_board_is_in_the_store_that_the_option_names(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        def test_store(jobboard_board):
            # A board of the kit's own takes part in any transaction.
            assert not jobboard_board.capabilities.transactions
    """)
    pytester.runpytest_subprocess().assert_outcomes(failed=1)
    pytester.runpytest_subprocess("--jobboard-uri", "memory://option").assert_outcomes(passed=1)
    pytester.makeini("[pytest]\njobboard_uri = memory://option")
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_handlers_that_nobody_named_are_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_drain(drain): drain()")
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*define a fixture jobboard_handlers in conftest.py*"])


def test_who_does_not_use_it_pays_nothing_and_keeps_what_is_theirs(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys
        import pytest

        @pytest.fixture
        def posted():
            return "mine"

        @pytest.fixture
        def drain():
            return "mine"

        def test_what_is_imported(posted, drain):
            ours = {name for name in sys.modules if name.partition(".")[0] == "jobboard"}
            assert ours == {"jobboard", "jobboard.testing", "jobboard.testing.plugin"}
            assert not {"msgpack", "stevedore", "sqlalchemy", "hypothesis"} & set(sys.modules)
            assert posted == drain == "mine"

        @pytest.mark.parametrize("refuse", [1])
        def test_arguments(refuse, request):
            assert not [name for name in request.fixturenames if name.startswith("jobboard")]
            assert not [line for line in request.config.getini("markers") if "jobboard" in line]
    """)
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "--strict-markers")
    result.assert_outcomes(passed=2)
