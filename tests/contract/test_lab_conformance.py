"""Every question that a real API server has answered gets the recorded answer from the lab's, over a real socket."""

from __future__ import annotations

from pathlib import Path

from dds_adapters.lab.conform.asking import Report, run
from dds_adapters.lab.conform.questions import questions, questions_after_restart
from dds_adapters.lab.conform.transport import Kubeconfig
from tests.support.served import served


def test_every_answer_is_the_recorded_one(tmp_path: Path) -> None:
    with served(tls=True) as server, Kubeconfig(server.kubeconfig(tmp_path / "config")) as transport:
        before = run(transport, questions())
        server.run(server.server.restart)
        after = run(transport, questions_after_restart())
    print(*before.lines(), *after.lines(), sep="\n")  # noqa: T201 - the known differences are part of the result
    assert len(before.asked) == 116 and len(after.asked) == 4
    _as_recorded(before)
    _as_recorded(after)


def _as_recorded(report: Report) -> None:
    assert report.unknown == [], "\n".join(map(str, report.unknown))
    assert report.outlived == [], "these known differences no longer show: take them off the list"
