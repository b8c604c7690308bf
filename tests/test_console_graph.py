"""The console's drawing of a graph, and what a job's page says of its parents, steps and signals."""

from __future__ import annotations

import itertools
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers.console import links_of, text_of
from helpers.console_jobs import ask_as, board
from helpers.graphs import count_requests, end, post_graph

from jobboard import JobBoard, JobState, Posting
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.reasons import waits_for
from jobboard.backends.rows import Abandonment, Fence
from jobboard.board import client_of
from jobboard.console import RIGHTS
from jobboard.console.drawing import HEIGHT, WIDTH, drawing_of
from jobboard.graph.model import Edge, Graph, Node

__all__ = ["board"]

PIPELINE = {"fetch": [], "resize": ["fetch"], "scan": ["fetch"], "page": ["resize", "scan"]}
MARKUP = '"><script>alert(1)</script>'


def drawing_in(page: Any) -> ElementTree.Element:
    """Return the SVG of a page, which must be well-formed."""
    assert page.status_code == 200, text_of(page)
    (svg,) = re.findall(r"<svg width=.*</svg>\n</div>", page.text, re.DOTALL)
    return ElementTree.fromstring(svg.removesuffix("\n</div>"))


class TestDrawing:
    def test_boxes_do_not_overlap_and_lines_begin_and_end_at_their_sides(self) -> None:
        pairs = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d"), ("x", "d"), ("d", "d"), ("d", "a")]
        nodes = {name: Node(name, name, "COMPLETE") for name in "abcdx"}
        drawing = drawing_of(Graph("a", nodes, tuple(Edge(*pair) for pair in pairs)))
        for one, other in itertools.combinations(drawing.boxes, 2):
            assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT
        for box in drawing.boxes:
            assert 0 <= box.x <= drawing.width - WIDTH
            assert 0 <= box.y <= drawing.height - HEIGHT
        assert len(drawing.lines) == 7
        corner = {box.node.uuid: (box.x, box.y + HEIGHT / 2) for box in drawing.boxes}
        drawn = [pair for pair in pairs if pair[0] != pair[1]]
        for (parent, child), line in zip(drawn, drawing.lines, strict=True):
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", line.path)]
            is_back = corner[parent][0] > corner[child][0]
            assert numbers[:2] == [corner[parent][0] + (0 if is_back else WIDTH), corner[parent][1]]
            assert numbers[-2:] == [corner[child][0] + (WIDTH if is_back else 0), corner[child][1]]

    def test_one_job_is_one_box(self) -> None:
        drawing = drawing_of(Graph("a", {"a": Node("a", "a", "COMPLETE")}))
        assert len(drawing.boxes) == 1
        assert drawing.height < 2 * HEIGHT


class TestGraphPage:
    def test_each_job_is_a_box_that_leads_to_it_and_each_edge_a_line(self, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        end(board, jobs["fetch"])
        board.trash(jobs["scan"], reason="bad")
        page = ask_as(board).get(f"/b/jobs/jobs/{jobs['resize'].uuid}/graph")
        svg = drawing_in(page)
        assert len(svg.findall("path")) == 4
        boxes = {link.attrib["href"]: link[0].attrib["class"] for link in svg.findall("a")}
        assert boxes == {
            f"/b/jobs/jobs/{jobs[name].uuid}": f"node {state}"
            for name, state in [
                ("fetch", "complete"),
                ("resize", "unclaimed root"),
                ("scan", "trashed"),
                ("page", "blocked"),
            ]
        }
        text = text_of(page)
        assert "4 jobs: 1 trashed, 1 blocked, 1 unclaimed, 1 complete. Not over; posted " in text
        assert "1 waits for what is in the trash." in text
        assert f"trashed scan {jobs['scan'].uuid[-8:]} : bad" in text
        assert f"page blocked {jobs['page'].uuid[-8:]} parents" in text
        assert "data-refresh" not in page.text

    def test_keys_are_shown_if_there_are_any_and_of_failures(self, board: JobBoard) -> None:
        first = board.post("extract", key="monday:orders")
        last = board.post("report", after=[first])
        board.trash(first, reason="OSError: disk full")
        page = ask_as(board).get(f"/b/jobs/jobs/{last.uuid}/graph")
        assert f"trashed extract monday:orders {first.uuid[-8:]} : OSError: disk full" in text_of(page)
        assert "trashed · monday:orders" in text_of(page)
        board.post("load", key="monday:a-table-with-a-very-long-name", after=[first])
        text = text_of(ask_as(board).get(f"/b/jobs/jobs/{first.uuid}/graph"))
        assert re.search(r"blocked · …\S*a-very-long-name ", text)
        assert f"extract monday:orders trashed {first.uuid[-8:]}" in text_of(page)

    def test_a_large_graph_is_folded_and_leads_to_lists(self, board: JobBoard) -> None:
        plan = Posting("plan")
        parts = [Posting("part", after=[plan]) for _ in range(250)]
        uuid = board.post_many([plan, *parts, Posting("report", after=parts)])[0].uuid
        page = ask_as(board).get(f"/b/jobs/jobs/{uuid}/graph")
        svg = drawing_in(page)
        assert len(svg.findall("path")) == 2
        assert "250 × part" in text_of(page)
        assert "252 jobs: 251 blocked, 1 unclaimed." in text_of(page)
        assert "/b/jobs/jobs?name=part&state=blocked" in links_of(page)
        assert 'data-refresh="off"' in page.text

    def test_ten_thousand_jobs_are_a_small_page_and_are_read_once_for_all_who_look(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # On a busy machine the page itself may take longer than a graph is kept.
        monkeypatch.setattr("jobboard.console.pages.graph._GRAPH_AGE", 3600.0)
        plan = Posting("plan")
        parts = [Posting(f"part {number % 5}", after=[plan]) for number in range(9_998)]
        uuid = board.post_many([plan, *parts, Posting("report", after=parts)])[0].uuid
        ask = ask_as(board)
        page = ask.get(f"/b/jobs/jobs/{uuid}/graph")
        assert "10,000 jobs: 9,999 blocked" in text_of(page)
        assert len(page.text) < 50_000
        requests = count_requests(board)
        assert ask.get(f"/b/jobs/jobs/{uuid}/graph").text == page.text
        assert len(requests) <= 2

    def test_names_and_signals_are_shown_as_text(self, board: JobBoard) -> None:
        first = board.post(MARKUP)
        job = board.post(MARKUP, after=[first])
        token = board.claim(first, "worker")
        client = client_of(board)
        wish = Abandonment(Fence(first.uuid, "worker", token), counted=False, signal=MARKUP)
        client.call(client.backend.jobs.abandon, [wish])
        board.signal(job, MARKUP)
        for path in (f"jobs/{job.uuid}/graph", f"jobs/{job.uuid}", f"jobs/{first.uuid}"):
            page = ask_as(board, *RIGHTS).get(f"/b/jobs/{path}")
            assert page.status_code == 200
            assert "<script>alert" not in page.text
        assert drawing_in(ask_as(board).get(f"/b/jobs/jobs/{job.uuid}/graph")) is not None

    def test_what_is_not_there_is_not_found(self, board: JobBoard) -> None:
        ask = ask_as(board)
        assert ask.get("/b/jobs/jobs/nonsense/graph").status_code == 404
        assert ask.get("/b/jobs/jobs/00000000-0000-0000-0000-000000000000/graph").status_code == 404


class TestJobPage:
    def test_the_progress_of_a_fan_in_and_its_graph(self, board: JobBoard) -> None:
        jobs = post_graph(board, PIPELINE)
        for name in ("fetch", "resize"):
            end(board, jobs[name])
        other = board.post("other")
        board.trash(other)
        board.trash(jobs["scan"], reason=f"bad, as {other.uuid} was")
        ask = ask_as(board)
        page = ask.get(f"/b/jobs/jobs/{jobs['page'].uuid}")
        assert "Parents: 1 of 2, 1 failed" in text_of(page)
        assert f"jobboard restore {jobs['scan'].uuid}" in text_of(page)
        assert f"/b/jobs/jobs/{jobs['scan'].uuid}" in links_of(page)
        operator = text_of(ask_as(board, "restore").get(f"/b/jobs/jobs/{jobs['page'].uuid}"))
        assert re.findall("Restore parent (\\w+)", operator) == [jobs["scan"].uuid[-8:]]
        assert "jobboard restore" not in operator
        assert f"/b/jobs/jobs/{jobs['page'].uuid}/graph" in links_of(page)
        assert f"/b/jobs/jobs/{jobs['fetch'].uuid}/graph" in links_of(ask.get(f"/b/jobs/jobs/{jobs['fetch'].uuid}"))

    def test_a_job_that_was_complete_before_its_children_were_posted_has_a_graph(self, board: JobBoard) -> None:
        plan = board.post("plan")
        end(board, plan)
        board.post("part", after=[plan])
        ask = ask_as(board)
        assert f"/b/jobs/jobs/{plan.uuid}/graph" in links_of(ask.get(f"/b/jobs/jobs/{plan.uuid}"))
        assert "2 jobs: 1 unclaimed, 1 complete. Not over" in text_of(ask.get(f"/b/jobs/jobs/{plan.uuid}/graph"))

    def test_a_plain_job_has_no_graph(self, board: JobBoard) -> None:
        page = ask_as(board).get(f"/b/jobs/jobs/{board.post('a').uuid}")
        assert not [link for link in links_of(page) if link.endswith("/graph")]
        assert "Steps and signals" not in text_of(page)

    def test_steps_and_signals_in_their_order(self, board: JobBoard) -> None:
        job = board.post("order")
        fence, client = Fence(job.uuid, "w1", board.claim(job, "w1")), client_of(board)
        client.call(client.backend.steps.save, fence, StepRow(0, "charge", client.encode("result", "c-17")))
        client.call(client.backend.steps.save, fence, StepRow(1, "mail", b"broken"))
        board.signal(job, "approved", {"secret": 1})
        text = text_of(ask_as(board, *RIGHTS).get(f"/b/jobs/jobs/{job.uuid}"))
        assert re.search(r'step 1\. charge c-17 20.* 2\. mail .* signal sent approved {"secret": 1}', text)
        text = text_of(ask_as(board, *(set(RIGHTS) - {"details"})).get(f"/b/jobs/jobs/{job.uuid}"))
        assert re.search(r"step 1\. charge 20.* signal sent approved", text)
        assert not re.search("secret|c-17", text)


class TestSignal:
    def blocked(self, board: JobBoard) -> str:
        job = board.post("order")
        token, client = board.claim(job, "worker"), client_of(board)
        fence, reason = Fence(job.uuid, "worker", token), waits_for("approved")
        wish = Abandonment(fence, reason=reason, counted=False, signal="approved")
        client.call(client.backend.jobs.abandon, [wish])
        return job.uuid

    def test_a_user_with_the_right_sends_what_the_job_waits_for(self, board: JobBoard) -> None:
        uuid, told = self.blocked(board), list[tuple[Any, ...]]()
        ask = ask_as(board, "signal", on_action=lambda *action: told.append(action))
        page = ask.get(f"/b/jobs/jobs/{uuid}")
        assert re.search(r"waiting for signal \d+ms so far - - - Facts", text_of(page))
        assert "A run that goes on later is not counted - queued " in re.sub(" No. .*? Who ", " ", text_of(page))
        assert "asleep" not in text_of(page)
        assert 'name="name" value="approved"' in page.text
        form = {"action": "signal", "name": "approved", "value": '{"by": "ann"}'}
        assert "The signal approved is sent." in text_of(ask.post(f"/b/jobs/jobs/{uuid}", form))
        job = board.get(uuid)
        assert job.record.state is JobState.UNCLAIMED
        assert [(signal.name, signal.value) for signal in job.signals()] == [("approved", {"by": "ann"})]
        assert job.history[-1].who == "ann"
        again = ask.post(f"/b/jobs/jobs/{uuid}", {**form, "value": ""})
        assert "was sent before, and its first value stays" in text_of(again)
        assert told == [("ann", "signal", [uuid])]

    def test_one_that_the_job_does_not_wait_for_says_what_it_waits_for(self, board: JobBoard) -> None:
        uuid, ask = self.blocked(board), ask_as(board, "signal")
        page = ask.post(f"/b/jobs/jobs/{uuid}", {"action": "signal", "name": "aproved"})
        assert "goes on waiting for the signal approved" in text_of(page)
        assert board.get(uuid).record.state is JobState.BLOCKED

    def test_without_the_right_or_from_another_site_nothing_is_sent(self, board: JobBoard) -> None:
        uuid, form = self.blocked(board), {"action": "signal", "name": "approved"}
        reader = ask_as(board, *(set(RIGHTS) - {"signal"}))
        assert 'value="signal"' not in reader.get(f"/b/jobs/jobs/{uuid}").text
        assert reader.post(f"/b/jobs/jobs/{uuid}", form).status_code == 403
        anybody = ask_as(board, *RIGHTS)
        assert anybody.post(f"/b/jobs/jobs/{uuid}", form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        for bad in ({"name": ""}, {"name": "a\0"}, {"value": "{"}, {"value": "NaN"}, {"name": "x" * 5000}):
            assert anybody.post(f"/b/jobs/jobs/{uuid}", form | bad).status_code == 400
        assert board.get(uuid).signals() == []

    @pytest.mark.parametrize("how", ["consume", "trash"])
    def test_a_job_that_is_over_takes_none(self, board: JobBoard, how: str) -> None:
        job = board.post("order")
        if how == "consume":
            end(board, job)
        else:
            board.trash(job)
        ask = ask_as(board, *RIGHTS)
        assert 'value="signal"' not in ask.get(f"/b/jobs/jobs/{job.uuid}").text
        assert ask.post(f"/b/jobs/jobs/{job.uuid}", {"action": "signal", "name": "approved"}).status_code == 404
