from datetime import timedelta

import pytest
from shop import Order, invoice, place_order, sent

from jobboard import Every, JobState, Schedule


@pytest.fixture(autouse=True)
def nothing_sent():
    sent.clear()


def test_an_order_is_invoiced_once(jobboard_board, drain, posted, refuse):
    place_order(jobboard_board, Order("4711", amount=10))

    job = posted("invoice", details={"order": "4711"})  # the job; other details may be there
    refuse("invoice", details={"order": "4712"})  # no such job was posted

    drain()  # runs what is due, in this thread
    assert sent == ["invoice 4711"]
    assert job.result == 1


def test_the_reminder_comes_after_a_week(jobboard_board, jobboard_clock, drain):
    place_order(jobboard_board, Order("4711", amount=10))
    drain()
    jobboard_clock.move(timedelta(days=7))
    drain()
    assert sent == ["invoice 4711", "reminder 4711"]


def test_what_a_handler_raises_is_raised(jobboard_board, jobboard_clock, drain, posted):
    place_order(jobboard_board, Order("4711", amount=0))
    with pytest.raises(ValueError, match="nothing to pay"):
        drain()
    assert posted("invoice").state is JobState.DELAYED  # it waits for its retry
    jobboard_clock.move(2)
    with pytest.raises(ValueError, match="nothing to pay"):
        drain()


def test_a_schedule_fires(jobboard_board, jobboard_clock, drain):
    jobboard_board.schedules.add(Schedule("weekly", Every(weeks=1), invoice, Order("weekly", amount=5)))
    jobboard_clock.move(timedelta(days=7))
    (job,) = drain()
    assert job.schedule_id == "weekly"


@pytest.mark.usefixtures("jobboard_inline")
def test_handlers_run_at_the_post(jobboard_board):
    place_order(jobboard_board, Order("4711", amount=10))
    assert sent == ["invoice 4711"]  # the reminder is not due
