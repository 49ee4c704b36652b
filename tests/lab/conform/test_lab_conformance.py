"""Every question that a real API server has answered gets the recorded answer from the lab's, over a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dds_lab.actors.claim_controller import ClaimController
from dds_lab.client import Client
from dds_lab.conform.asking import Report, run
from dds_lab.conform.questions import REWORDED, questions, questions_after_restart, questions_of_exchange
from dds_lab.conform.transport import Kubeconfig
from dds_lab.http_frontend import Served
from dds_lab.latency import NONE
from tests.support.served import new_server, served


def test_every_answer_is_the_recorded_one(tmp_path: Path) -> None:
    with served(tls=True) as server, Kubeconfig(server.kubeconfig(tmp_path / "config")) as transport:
        with claim_controller(server):
            before = run(transport, questions())
        server.run(server.server.restart)
        after = run(transport, questions_after_restart())
    with served(tls=True) as server, Kubeconfig(server.kubeconfig(tmp_path / "other")) as transport:
        exchange = run(transport, questions_of_exchange())
    reports = (before, after, exchange)
    print(*(line for report in reports for line in report.lines()), sep="\n")  # noqa: T201 - what differs is part of the result
    assert [len(report.asked) for report in reports] == [124, 4, 54]
    assert {each.question for report in reports for each in report.wordings} == set(REWORDED)
    for report in reports:
        _as_recorded(report)


def test_1_37_is_told_apart_by_its_release_and_what_it_serves(tmp_path: Path) -> None:
    asked = [one for one in questions() if one.id in ("version", "api-groups", "resource-v1")]
    shown = {}
    for version in ("1.36", "1.37"):
        server = new_server(version=version)
        with served(tls=True, server=server) as lab, Kubeconfig(lab.kubeconfig(tmp_path / version)) as transport:
            report = run(transport, asked)
        assert len(report.asked) == 3
        _as_recorded(report)
        shown[version] = {one.question for one, _ in report.explained}
    assert (shown["1.36"], shown["1.37"]) == ({"api-groups"}, {"api-groups", "version", "resource-v1"})


@contextmanager
def claim_controller(server: Served) -> Iterator[None]:
    """The answers were recorded beside one: it takes back the reservation of a pod that does not exist."""

    def started() -> ClaimController:
        made = ClaimController(Client(server.server, server.face.time, "claims"), server.face.time, NONE)
        made.start()
        return made

    controller = server.run(started)
    try:
        yield
    finally:
        server.run(controller.stop)


def _as_recorded(report: Report) -> None:
    assert report.unknown == [], "\n".join(map(str, report.unknown))
    assert report.outlived == [], "these known differences no longer show: take them off the list"
