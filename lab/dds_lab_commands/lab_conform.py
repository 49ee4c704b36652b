"""`dds lab conform`: what a server answers, or what a recording of a real run shows, beside what the lab does."""

from __future__ import annotations

from itertools import count

import click

from dds_adapters.kubernetes.recording import RecordedEvent, read_recording
from dds_commands.running import FINE, VERIFICATION
from dds_commands.screen import counted, position_bar, show
from dds_core.errors import InputError
from dds_lab import shipped
from dds_lab.check.subjects import Ours, without_hands
from dds_lab.conform.asking import prepared
from dds_lab.conform.asking import run as ask
from dds_lab.conform.questions import RECORDED_NAMESPACE, questions, questions_of_exchange
from dds_lab.conform.recordings import Compared, compared
from dds_lab.conform.transport import Kubeconfig
from dds_lab.lab import Lab
from dds_lab.scenario import Scenario
from dds_lab.time import MICROSECONDS, VirtualTime


@click.command("conform")
@click.argument("scenario", metavar="[SCENARIO]", required=False)
@click.option(
    "--recording", metavar="FILE", help="A recording of a real run of SCENARIO, to compare with the lab's play."
)
@click.option(
    "--seeds",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="With --recording: play with up to N seeds, SCENARIO's and those from 1, and report the nearest.",
)
@click.option("--dds", is_flag=True, help="With --recording: dds was the scaler, not the reference.")
@click.option("--kubeconfig", "path", metavar="FILE", help="Server and user, to ask the questions.")
@click.option("--context", metavar="NAME", help="Context of the administrator; by default the current one.")
@click.option(
    "--as-user",
    metavar="USER",
    help="Impersonate this user without rights; by default use the context dds, else impersonate ddsuser.",
)
@click.option(
    "--namespace",
    metavar="NAME",
    default=RECORDED_NAMESPACE,
    show_default=True,
    help="Temporary namespace, created and removed.",
)
@click.option(
    "--exchange",
    is_flag=True,
    help="Instead ask how a claim's devices are exchanged; no claim controller may run on the server.",
)
def conform(
    scenario: str | None, recording: str | None, seeds: int, dds: bool,
    path: str | None, context: str | None, as_user: str | None, namespace: str, exchange: bool,
) -> int:  # fmt: skip
    """Compare a server's answers with those of a real kube-apiserver 1.36.2; or, with --recording, a real run of SCENARIO with
    the lab's own.

    The server should be empty: writes of controllers show as differences. Objects of the questions must not exist before,
    and are removed afterwards; the two custom resource definitions are installed where they are missing.

    A recording, of `dds lab record`, `dds lab join` or `dds lab run --cluster`, is compared object by object: which there were,
    through which states they went, in which order, and which fields differ. docs/lab.md lists what is left out.

    \b
    Exit codes:
      0  all answers as recorded, except known differences of the lab; the runs are alike
      1  the questions could not be asked; the recording cannot be read
      2  an answer differs; the runs differ
    """
    if (recording is None) == (path is None):
        raise InputError("give a server or a recording", fix="--kubeconfig FILE, or SCENARIO and --recording FILE")
    if (recording is None) != (scenario is None):
        raise InputError("a recording needs its scenario", fix="give SCENARIO and --recording FILE")
    if recording is not None and scenario is not None:
        return _of_run(shipped.find(scenario), recording, seeds, dds)
    assert path is not None
    asked = (questions_of_exchange if exchange else questions)(namespace)
    with Kubeconfig(path, context, as_user or "") as transport, prepared(transport, asked, show):
        number = count(1)
        with position_bar(len(asked), "asking") as progress:
            report = ask(transport, asked, lambda question: progress(next(number)))
    for line in report.lines():
        show(line)
    return FINE if report.as_recorded else VERIFICATION


def _of_run(scenario: Scenario, path: str, seeds: int, dds: bool) -> int:
    recorded = list(read_recording(path))
    span = (recorded[-1].at - recorded[0].at) / MICROSECONDS
    nearest: tuple[int, Compared] | None = None
    chosen = list(dict.fromkeys((scenario.seed, *range(1, seeds + 1))))[:seeds]
    with position_bar(len(chosen), "playing") as progress:
        for number, seed in enumerate(chosen, start=1):
            found = compared(recorded, played(scenario, seed, max(scenario.duration, span), dds))
            if nearest is None or len(found.differences) < len(nearest[1].differences):
                nearest = seed, found
            progress(number)
            if not found.differences:
                break
    assert nearest is not None
    seed, found = nearest
    show(f"{scenario.name}, Kubernetes {scenario.cluster.version}, seed {seed}, beside {path}")
    for line in found.lines():
        show(line)
    if found.differences:
        show(f"{counted(len({one.of for one in found.differences}), 'object')} differ")
    return VERIFICATION if found.differences else FINE


class _Kept(list[RecordedEvent]):
    """A recording in memory."""

    def write(self, at: int, resource: str, type: str, obj: bytes) -> None:
        self.append(RecordedEvent(at, resource, type, obj))


def played(scenario: Scenario, seed: int, seconds: float, dds: bool = False) -> list[RecordedEvent]:
    """The lab's recording of the scenario, with dds in the place of its scaler if `dds` is set."""
    kept, lab = _Kept(), Lab(without_hands(scenario) if dds else scenario, VirtualTime(seed, scenario.start))
    ours = Ours(lab, scenario) if dds else None
    lab.start(kept)
    try:
        if ours is not None:
            ours.begin()
        lab.run(until=scenario.start + round(seconds * MICROSECONDS))
    finally:
        if ours is not None:
            ours.end()
        lab.stop()
    return kept
