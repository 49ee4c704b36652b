"""`dds publish` as a program before a manager that answers what it should not: one line that names call, request and what to do,
nothing published, nothing leaked; and all is well once the manager is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dds_adapters.sql import Database
from dds_lab.scenario.trouble import ManagerFault
from tests.realtime.publisher.test_program import FOUR, lab, log, published, publishing, struck, types, verified
from tests.support.live_lab import LiveLab, eventually
from tests.support.live_publisher import pool_slices

__all__ = ["lab", "log"]

REQUEST = r"\(request [0-9a-f]{8}-[0-9a-f-]{27}\)"
BAD = {
    "a page for everything": (
        ManagerFault(kind="odd", odd="html"),
        rf"im\.token {REQUEST}: the answer is a web page, not JSON",
    ),
    "a field that is missing": (
        ManagerFault(kind="odd", calls=("machines",), odd="missing", field="mach_uuid"),
        rf"fm\.machines {REQUEST}: field data\.machines\.\d+\.mach_uuid is missing",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_answer_is_one_clear_line_and_publishes_nothing(
    kind: str, lab: LiveLab, log: str, tmp_path: Path
) -> None:
    fault, words = BAD[kind]
    login = lab.manager.manager.settings.login
    struck(lab, fault)
    with publishing(lab, log, tmp_path) as ours:
        eventually(lambda: types(log)["Synced"], 60)
        assert pool_slices(lab) == [] and types(log)["PoolPublished"] == 0
        told = [line["msg"] for line in ours.lines() if line["level"] == "warning" and "machines" in line["msg"]]
        assert re.search(words, told[0]) and "; " in told[0] and "\n" not in told[0]
        struck(lab, fault, on=False)
        eventually(lambda: published(lab, *FOUR), 60)
        assert ours.end() == 0
    said = ours.said.read_text()
    with Database(log) as database:
        rows = b"".join(row.data or b"" for row in database.log("lab/publisher").read()).decode()
    for secret in (login.password, login.client_secret, "eyJ"):
        assert secret not in said and secret not in rows
    verified(log, "lab/publisher")
