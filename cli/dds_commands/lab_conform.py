"""`dds lab conform`: ask a server the questions that a real one has answered, and tell what differs."""

from __future__ import annotations

from itertools import count

import click

from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import position_bar, show
from dds_lab.conform.asking import Report, prepared, run
from dds_lab.conform.questions import RECORDED_NAMESPACE, Question, questions
from dds_lab.conform.transport import Kubeconfig


@click.command("conform")
@click.option("--kubeconfig", "path", metavar="FILE", required=True, help="The server and who asks it.")
@click.option("--context", metavar="NAME", help="Context of the administrator; the current one by default.")
@click.option(
    "--as-user",
    metavar="USER",
    help="User without rights, impersonated; by default the context `dds`, or else the user ddsuser.",
)
@click.option(
    "--namespace", metavar="NAME", default=RECORDED_NAMESPACE, show_default=True, help="Made for it, and removed."
)
def conform(path: str, context: str | None, as_user: str | None, namespace: str) -> int:
    """Compare a server's answers with those of a real kube-apiserver 1.36.2.

    The server should be empty: controllers that write meanwhile show as differences. What the questions create must not
    exist before, and is removed afterwards; the two custom resource definitions are installed where they are missing.

    \b
    Exit codes:
      0  all answers are as recorded, but for the known differences of the lab
      1  the questions could not be asked
      2  an answer differs
    """
    asked = questions(namespace)
    with Kubeconfig(path, context, as_user or "") as transport, prepared(transport, asked, show):
        report = _run(transport, asked)
    for line in report.lines():
        show(line)
    return FINE if report.as_recorded else VERIFICATION


def _run(transport: Kubeconfig, asked: list[Question]) -> Report:
    number = count(1)
    with position_bar(len(asked), "asking") as progress:
        return run(transport, asked, lambda question: progress(next(number)))
