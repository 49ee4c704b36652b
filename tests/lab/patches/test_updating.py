"""Owners after creates, updates and patches: who takes, who loses, and managedFields that a client sends itself."""

from typing import Any

import pytest

from dds_lab.api import ownership
from dds_lab.api.kinds import Object
from dds_lab.api.ownership.managers import OLD_UPDATES, UPDATES_KEPT
from dds_lab.api.packed import kind_node

NODE = kind_node("", "v1", "Node")


def node(managed: Any = None, **labels: str) -> Object:
    metadata: Object = {"name": "n", "uid": "u", "labels": labels}
    if managed is not None:
        metadata["managedFields"] = managed
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": {}}


def updated(old: Object | None, new: Object, manager: str, now: str, subresource: str = "") -> list[Object]:
    return ownership.updated(NODE, old, new, manager, subresource, "v1", now)


def labelled(*names: str, alone: bool = False) -> Object:
    fields: Object = {f"f:{name}": {} for name in names}
    return {"f:metadata": {"f:labels": fields if alone else {".": {}, **fields}}}


def entry(manager: str, fields: Object, time: str = "1", **more: str) -> Object:
    head = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time}
    return {**head, "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def test_many_updaters_share_one_entry_of_old_changes() -> None:
    live = node([entry("m00", labelled("l00"), "00")], l00="1")
    for number in range(1, 15):
        name = f"l{number:02}"
        new = node(**live["metadata"]["labels"], **{name: "1"})
        managed = updated(live, new, f"m{number:02}", f"{number:02}")
        live = node(managed, **new["metadata"]["labels"])
        assert sum(one["operation"] == "Update" for one in managed) <= UPDATES_KEPT
    old = next(one for one in managed if one["manager"] == OLD_UPDATES)
    assert set(old["fieldsV1"]["f:metadata"]["f:labels"]) == {".", "f:l00", "f:l01", "f:l02", "f:l03", "f:l04", "f:l05"}
    assert old["time"] == "05"


def test_a_client_resets_the_owners() -> None:
    old = node([entry("maker", labelled("a"))], a="1")
    assert updated(old, node([{}], a="1"), "other", "2") == []


def test_a_client_sends_owners_of_its_own() -> None:
    mine = [entry("mine", labelled("a"))]
    old = node([entry("maker", labelled("a"))], a="1")
    assert updated(old, node(mine, a="1"), "other", "2") == mine
    through_status = updated(old, node(mine, a="1"), "other", "2", "status")
    assert through_status == [entry("maker", labelled("a"))], "a subresource does not take them"


@pytest.mark.parametrize(
    "sent",
    [
        [{"manager": "x"}],
        [{"manager": "x", "operation": "Sideways", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV2", "apiVersion": "v1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": "f:a"}],
        [{"manager": 5, "operation": "Update", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": {}}],
        [{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": {"f:a": 1}}],
        [
            {
                "manager": "x",
                "operation": "Update",
                "fieldsType": "FieldsV1",
                "apiVersion": "v1",
                "fieldsV1": {"zzz": {}},
            }
        ],
        [
            {
                "manager": "x",
                "operation": "Update",
                "fieldsType": "FieldsV1",
                "apiVersion": "v1",
                "fieldsV1": {"k:{": {}},
            }
        ],
        ["text"],
        [{}, {}],
    ],
)
def test_nonsense_for_owners_leaves_them_as_they_are(sent: Any) -> None:
    old = node([entry("maker", labelled("a"))], a="1")
    assert updated(old, node(sent, a="1"), "other", "2") == [entry("maker", labelled("a"))]
    assert updated(None, node(sent, a="1"), "maker", "1") == [entry("maker", labelled("a"))]
