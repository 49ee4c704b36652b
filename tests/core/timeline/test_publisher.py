"""The publisher's log in words: what the fabric has, what was published and why, and whom a person may ask about."""

from __future__ import annotations

import pytest

from dds_core.publisher import events as e
from dds_core.publisher.component import PUBLISHER
from dds_core.publisher.model import FreeDevice, Machine
from dds_core.publisher.timeline import PublisherDirectory
from dds_core.replay import moments, of_steps
from dds_core.timeline import AmbiguousSubject, Entry, Moment, NoSuchSubject, as_data
from tests.support.pool_story import A100, POOL, PoolStory, told_story

TELLING = PUBLISHER.telling


def told(story: PoolStory, subject: str = "") -> list[Entry]:
    moments = list(of_steps(story.steps))
    found = directory(story).find(subject) if subject else None
    return list(TELLING.timeline(moments, found))


def directory(story: PoolStory) -> PublisherDirectory:
    return PublisherDirectory().read(of_steps(story.steps))


def lines(entries: list[Entry]) -> list[str]:
    return [f"{one.kind} {one.name}: {one.source} > {one.target} {one.cause}".strip() for one in entries]


def test_everything_is_told_as_changes_of_the_fabric_with_what_was_decided_on_them() -> None:
    entries = told(told_story())
    assert lines(entries) == [
        "fabric the list of machines: New > answers",
        "machine server-0: New > fabric 1 may have at most 4 and at least 0 of A100 40G",
        "machine server-1: New > fabric 2",
        "stock A100 40G in fabric 1: New > 3 free",
        "stock H100 80G in fabric 2: New > 1 free",
        "fabric A100 40G in fabric 1: New > fails 503 Service Unavailable",
        "fabric A100 40G in fabric 1: fails > answers",
        "stock A100 40G in fabric 1: 3 free > 2 free",
        "decision :  >  dds decided to publish pool nvidia-a100-40-fabric1 with 2 devices at generation 1, tainted"
        " cohdi.io/cooling: 2 free, 1 held; cooling down, as server-0 asks",
        "stock H100 80G in fabric 2: 1 free > 2 free",
        "write PoolPublished of pool nvidia-h100-80-fabric2: asked > refused 422 Invalid spec.devices: too many",
    ]
    published = entries[3]
    assert [note.text for note in published.notes] == [
        "dds decided to publish pool nvidia-a100-40-fabric1 with 3 devices at generation 1: 3 free, 0 held"
    ]
    assert [one.after for one in entries if one.name == "A100 40G in fabric 1"] == [None, None, 5_100_000, 6_300_000]


def test_a_group_without_a_change_of_the_fabric_tells_each_decision() -> None:
    story = PoolStory("observe")
    story.machine("server-0", "1")
    story.stock("1", A100, 2)
    story.feed(e.PolicyChanged(policy={"mode": "publish"}))
    words = [one.cause for one in told(story) if one.kind == "decision"]
    assert words[0].startswith("dds decided to publish pool nvidia-a100-40-fabric1 with 2 devices")
    assert words[1].startswith("dds decided to label server-0 with cohdi.io/fabric=1")


def test_a_pool_is_told_with_its_slices_its_stock_and_the_claims_that_hold_its_devices() -> None:
    entries = told(told_story(), POOL)
    assert {one.kind for one in entries} == {"stock", "fabric", "decision", "rest"}
    assert all("H100" not in one.name for one in entries)
    notes = [note.text for one in entries for note in one.notes]
    assert f"claim default/train: allocated nvidia-a100-40-1 of pool {POOL} on server-0" in notes
    assert f"slice {POOL}-gpu-nvidia-com-000 of pool {POOL} no longer lists nvidia-a100-40-2" in notes
    assert f"PoolPublished of pool {POOL} was carried out" in notes


def test_a_node_is_told_with_its_labels_its_machine_and_its_claims() -> None:
    entries = told(told_story(), "server-0")
    assert lines(entries)[0] == "machine server-0: New > fabric 1 may have at most 4 and at least 0 of A100 40G"
    notes = [note.text for one in entries for note in one.notes]
    assert "node server-0: label cohdi.io/fabric=1" in notes
    assert any(text.startswith("claim default/train: allocated") for text in notes)
    assert not any("server-1" in text for text in notes)


def test_a_machine_is_told_until_no_answer_names_it() -> None:
    story = told_story()
    story.feed(e.MachineObserved(Machine("uuid-server-1", "server-1")))
    story.feed(e.MachineGone("uuid-server-1"))
    assert lines(told(story, "uuid-server-1")) == [
        "machine server-1: New > fabric 2",
        "machine server-1: fabric 2 > no fabric",
        "machine server-1: no fabric > Gone no answer names it any more",
    ]


def test_devices_that_the_fabric_names_are_told_by_their_ids() -> None:
    story = PoolStory()
    story.machine("server-0", "1")
    story.feed(e.StockObserved("1", "A100 40G", 2, (FreeDevice("x-1"), FreeDevice("x-2"))))
    story.feed(e.StockObserved("1", "A100 40G", 2, (FreeDevice("x-2", healthy=False), FreeDevice("x-3"))))
    assert lines(told(story))[-2:] == [
        "stock A100 40G in fabric 1: New > 2 free new: x-1, x-2",
        "stock A100 40G in fabric 1: 2 free > 2 free new: x-3; gone: x-1; not healthy: x-2",
    ]


def test_a_log_that_begins_with_a_checkpoint_speaks_in_the_same_names() -> None:
    story = told_story()
    story.feed(e.FabricFailed("machines", "no answer"))
    checkpoint = Moment(1, story.now, e.Checkpoint(PUBLISHER.projection, PUBLISHER.dump(story.state)), [])
    story.steps.clear()
    story.feed(e.FabricAnswered("machines"))
    story.stock("1", A100, 1)
    rows = [checkpoint, *of_steps(story.steps, 2)]
    found = PublisherDirectory().read(rows).find(POOL)
    everything = list(TELLING.timeline(rows))
    assert lines(everything) == [
        "fabric the list of machines: fails > answers",
        "stock A100 40G in fabric 1: 2 free > 1 free",
    ]
    assert everything[0].after is None, "nobody knows since when it had failed"
    assert lines(list(TELLING.timeline(rows, found))) == ["stock A100 40G in fabric 1: 2 free > 1 free"]


def test_what_was_erased_is_told() -> None:
    story = told_story()
    log = story.log()
    position = next(row.position for row in log.read() if row.type == "StockObserved")
    log.redact(positions=[position])
    entries = list(TELLING.timeline(moments(log.read_lean(), PUBLISHER)))
    assert any(note.text == f"erased: 1 of the group at position {position}" for one in entries for note in one.notes)


def test_an_entry_is_plain_data_as_one_of_the_scaler_is() -> None:
    entry = told(told_story())[7]
    data = as_data(entry)
    assert (data["kind"], data["name"], data["uid"]) == ("stock", "A100 40G in fabric 1", "stock/1/A100 40G")
    assert (data["from"], data["to"], data["after_seconds"]) == ("3 free", "2 free", 6.3)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        (POOL, "pool", POOL),
        (f"gpu.nvidia.com/{POOL}", "pool", POOL),
        ("nvidia-h100", "pool", "nvidia-h100-80-fabric2"),
        ("server-0", "node", "server-0"),
        ("node-server-1", "node", "server-1"),
        ("uuid-server-0", "machine", "uuid-server-0"),
    ],
)
def test_a_thing_is_found_by_each_of_its_names(text: str, kind: str, name: str) -> None:
    found = directory(told_story()).find(text)
    assert (found.kind, found.name) == (kind, name)


def test_a_claim_is_none_of_them() -> None:
    with pytest.raises(NoSuchSubject, match="no pool, node or machine is called 'default/train'; give a pool, a node"):
        directory(told_story()).find("default/train")
    with pytest.raises(AmbiguousSubject, match="'nvidia-' may be pool"):
        directory(told_story()).find("nvidia-")
