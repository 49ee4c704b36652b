"""What the documentation promises. Each row is a sentence that stands on a page, and what it has to agree with: a number in the
code, or a function below that tries the promise. Who changes the sentence changes its row."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from math import ceil
from pathlib import Path

import pytest
import yaml

from dds_adapters.kubernetes.lease.state import JITTER, LeaseSettings
from dds_adapters.kubernetes.limiter import MOST, WINDOW
from dds_adapters.runtime.live_settings import LiveSettings
from dds_adapters.runtime.operation import PATIENCE
from dds_adapters.runtime.process import STANDSTILL
from dds_commands.parameters import policy_read
from dds_core.errors import PolicyError
from dds_core.matching.search import MOST_STEPS
from dds_core.scaler.lacking import MOST_SHAPES
from dds_core.scaler.policy import read_policy
from tests.project.deploy.chart import manifests
from tests.project.docs.pages import ROOT
from tests.support.commands import FIRST_ATTACH, dds, fine, log_of, refused

LEASE, SETTINGS = LeaseSettings(), LiveSettings(identity="test")
TRIES = LEASE.retry_period * (1 + JITTER)
"""Seconds from one try of a standby to the next, at most."""


def said(page: str) -> str:
    """The words of a page in one line."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


NUMBERS: tuple[tuple[str, str, object], ...] = (
    ("docs/operations.md", r"A standby takes over (\d+) s after the leader's last renewal", LEASE.duration),
    ("docs/deployment.md", r"a standby has the Lease within (\d+) s of the last renewal", ceil(LEASE.duration + TRIES)),
    ("docs/operations.md", r"A leader that cannot renew for (\d+) s stands by again", LEASE.renew_deadline),
    ("docs/operations.md", r"A first start, which finds no Lease, waits (\d+) s too", LEASE.duration),
    ("docs/operations.md", r"after `--checkpoint-events` events \(([\d,]+)\)", SETTINGS.checkpoint_events),
    ("docs/operations.md", r"The deciding thread made no round for (two) minutes", PATIENCE / 60),
    ("docs/operations.md", r"The process stood still for over (ten) seconds", STANDSTILL),
    ("docs/operations.md", r"it gets at most (ten) requests in ten seconds", MOST),
    ("docs/operations.md", r"it gets at most ten requests in (ten) seconds", WINDOW),
    ("docs/operations.md", r"was not found in ([\d,]+) steps", MOST_STEPS),
    ("docs/operations.md", r"More than (\d+) kinds of pods wait", MOST_SHAPES),
    ("docs/architecture.md", r"and after (ten) seconds without CPU", STANDSTILL),
)
"""(page, what it says, the number in the code)"""
WORDS = {"two": "2", "ten": "10"}


@pytest.mark.parametrize(("page", "sentence", "number"), NUMBERS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_number_is_that_of_the_code(page: str, sentence: str, number: object) -> None:
    found = re.search(sentence, said(page))
    assert found is not None, f"{page} does not say so any more: change its row"
    assert float(WORDS.get(found[1], found[1]).replace(",", "")) == number


# -- guarantees ----------------------------------------------------------------------------------------------------------


def tampered(log: str, folder: Path, *statements: str) -> str:
    """A copy of the log after these statements."""
    copy = str(folder / f"{len(list(folder.iterdir()))}.sqlite3")
    shutil.copy(log, copy)
    with closing(sqlite3.connect(copy)) as database:
        for one in statements:
            assert database.execute(one).rowcount >= 1, one
        database.commit()
    return copy


CUT = "DELETE FROM dds_events WHERE position > 90"
HIDDEN = (
    "UPDATE dds_heads SET position = 90, checkpoint = 0, "
    'ordinal = (SELECT "group" FROM dds_events WHERE position = 90), '
    "hash = (SELECT hash FROM dds_events WHERE position = 90), "
    "recorded_at = (SELECT recorded_at FROM dds_events WHERE position = 90)"
)


def what_is_changed_in_a_log_is_found(folder: Path) -> None:
    log = log_of(FIRST_ATTACH, folder)
    anchors = folder / "anchors.jsonl"
    anchors.write_text(fine("log", "anchor", "--log", log))
    for named, *statements in (
        ("40", "UPDATE dds_events SET data = replace(data, 'default', 'another') WHERE position = 40"),
        ("40", "DELETE FROM dds_events WHERE position = 40"),
        ("91", CUT),
        ("head row", HIDDEN),
    ):
        found = dds("log", "verify", tampered(log, folder, *statements))
        assert found.exit_code == 2 and named in found.output, (statements, found.output)
    hidden = tampered(log, folder, CUT, HIDDEN)
    assert dds("log", "verify", hidden).exit_code == 0, "what the page does not promise"
    assert dds("log", "verify", hidden, "--anchor", str(anchors)).exit_code == 2


BROKEN = {
    "an alias bomb": b"a: &a [x, x]\nb: &b [*a, *a]\nlimits: *b\n",
    "deep nesting": b"limits: " + b"[" * 5000,
    "UTF-16": "mode: attach".encode("utf-16"),
    "a NUL": b'mode: "\x00"\n',
    "a list as a key": b"? [a]\n: b\n",
    "an object of Python": b"mode: !!python/object/apply:os.getcwd []\n",
    "a number without end": b"no_removal_seconds: " + b"9" * 6000,
    "two documents": b"mode: observe\n---\nmode: attach\n",
    "a day that is none": b"mode: 2001-99-99\n",
}


def no_policy_file_does_more_than_be_refused(folder: Path) -> None:
    """Whoever reads it again and again catches PolicyError and nothing else."""
    for name, text in BROKEN.items():
        path = folder / "policy.yaml"
        path.write_bytes(text)
        try:
            read = policy_read(str(path), read_policy)
        except PolicyError:
            continue
        raise AssertionError(f"{name} is no policy: {read}")


def an_import_makes_its_database(folder: Path) -> None:
    """As it is printed, but for the folder."""
    (line,) = re.findall(r"^dds (log import .* --checkpoint)$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    words = line.replace("examples/", f"{ROOT}/examples/").replace("new.sqlite3", str(folder / "new.sqlite3")).split()
    assert "imported log" in fine(*words)
    assert "archived" in fine("log", "archive", str(folder / "a.gz"), "--log", str(folder / "new.sqlite3"))


def redact_asks_for_the_name_of_several_logs_alone(folder: Path) -> None:
    log = log_of(FIRST_ATTACH, folder)
    redact = ("log", "redact", "--log", log, "--yes", "--position")
    assert "erased the data of 1 event" in fine(*redact, "40")
    fine("log", "import", FIRST_ATTACH, "--log", log, "--name", "other/scaler")
    assert "choose one with --name" in refused(*redact, "41")


ADDRESS = re.compile(r"--[a-z-]*bind-address HOST:PORT [^\[]*\[[^\]]*default: ([^\]]+)\]")


def without_options_all_listens_on_loopback(folder: Path) -> None:
    offered = [
        one
        for name in ("serve", "publish", "autoscale")
        for one in ADDRESS.findall(" ".join(fine(name, "--help").split()))
    ]
    assert len(offered) >= 7 and all(one == "0" or one.startswith("127.0.0.1:") for one in offered), offered
    both = [*manifests({}), *yaml.safe_load_all((ROOT / "deploy/kustomize/base/deployment.yaml").read_text())]
    pods = [one["spec"]["template"]["spec"] for one in both if one["kind"] == "Deployment"]
    assert len(pods) >= 2
    for given in (one["args"] for pod in pods for one in pod["containers"]):
        open_to_others = {one.partition("=")[0] for one in given if re.search(r"-bind-address=:\d", one)}
        assert open_to_others == {"--health-probe-bind-address", "--metrics-bind-address"}
        assert "--metrics-secure" in given


ANCHORED = (
    "A changed, removed or swapped event is found and named; so is a changed head row. "
    "Of a tail that was cut together with the head row only an anchor tells"
)
STAYS = "While the file is not valid the last valid policy stays in force"
PRINTED = "one at the end of a log from a recording: ```sh dds log import"
REDACT = "`dds log redact` asks for the name if there are several"
LISTENS = (
    "without options they listen on loopback alone; chart and manifests open probes, metrics (with a token) "
    "and the autoscaler's gRPC (mutual TLS) on the pod's addresses"
)
GUARANTEES: tuple[tuple[str, str, Callable[[Path], None]], ...] = (
    ("docs/event-log.md", ANCHORED, what_is_changed_in_a_log_is_found),
    ("docs/operations.md", STAYS, no_policy_file_does_more_than_be_refused),
    ("docs/operations.md", PRINTED, an_import_makes_its_database),
    ("docs/cli.md", REDACT, redact_asks_for_the_name_of_several_logs_alone),
    ("SECURITY.md", LISTENS, without_options_all_listens_on_loopback),
)
"""(page, what it says, how that is tried in an empty folder)"""


@pytest.mark.parametrize(("page", "sentence", "attempt"), GUARANTEES, ids=lambda one: getattr(one, "__name__", ""))
def test_a_guarantee_holds(page: str, sentence: str, attempt: Callable[[Path], None], tmp_path: Path) -> None:
    assert sentence in said(page), f"{page} does not say so any more: change its row"
    attempt(tmp_path)
