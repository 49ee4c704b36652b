"""The claims that dds makes for itself, a probe and a hold, are told to nobody as a claim that somebody asked for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.kubernetes import guard
from dds_core.model import OWNER, OWNER_LABEL
from tests.support.commands import FIRST_ATTACH, fine

SPACE = "composable-dra"


@pytest.fixture(scope="module")
def with_ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The recording first_attach, with the probe there from the beginning, and a hold at the end of the device that idles."""
    rows = [json.loads(line) for line in gzip.decompress(Path(FIRST_ATTACH).read_bytes()).splitlines()]
    probe, hold = guard.probe(SPACE), guard.probe(SPACE)
    probe["metadata"] |= {"uid": "u-probe", "resourceVersion": "1"}
    resource = next(row["object"] for row in rows if row["object"]["kind"] == "ComposableResource")
    hold["metadata"] |= {
        "name": "hold-1",
        "uid": "u-hold",
        "resourceVersion": "2",
        "labels": {OWNER_LABEL: OWNER},
        "ownerReferences": [
            {"kind": "ComposableResource", "name": resource["metadata"]["name"], "uid": resource["metadata"]["uid"]}
        ],
    }
    local = next(
        (spec["driver"], spec["pool"]["name"], spec["devices"][0]["name"])
        for row in rows
        if row["resource"] == "resourceslices"
        and (spec := row["object"]["spec"]).get("nodeName")
        and spec.get("devices")
    )
    result = dict(zip(("driver", "pool", "device"), local, strict=True)) | {"request": "device"}
    hold["status"] = {"allocation": {"devices": {"results": [result]}}}
    first, last = rows[0]["ts"], rows[-1]["ts"]
    added: list[dict[str, Any]] = [
        {"ts": at, "resource": "resourceclaims", "type": "ADDED", "object": one}
        for at, one in ((first, probe), (last, hold))
    ]
    path = tmp_path_factory.mktemp("ours") / "first_attach.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (rows[0], added[0], *rows[1:], added[1])))
    return str(path)


@pytest.mark.parametrize(
    "command",
    ["status --news 0", "claims", "claims --all", "devices", "devices --all", "usage --by claim"],
)
def test_nobody_is_told_of_them(with_ours: str, command: str) -> None:
    found, expected = (fine(*command.split(), one).splitlines() for one in (with_ours, FIRST_ATTACH))
    with_position = "  position "  # the log has two more facts
    assert [one for one in found if with_position not in one] == [one for one in expected if with_position not in one]


def test_they_are_on_no_page(with_ours: str) -> None:
    """They remain in the timelines of devices and nodes, as what happened to these."""
    found, expected = (json.loads(fine("report", one, "--json")) for one in (with_ours, FIRST_ATTACH))
    for part in ("summary", "claims", "devices", "alerts", "now", "untold"):
        assert found[part] == expected[part]
