"""Answers that are not as they should be: nothing of them is taken, and call, field and request are named."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from dds_adapters.fabric import FabricOdd, FabricRefused, FabricUnreachable
from dds_adapters.fabric.answers import Part, read
from dds_adapters.fabric.fsas.managers import CmGroupMembers, CmGroups, FmMachines
from dds_adapters.fabric.nec.cdim import NecNodes, NecResources
from dds_adapters.fabric.provider import FabricPartly
from dds_core.publisher.model import FreeDevice, Limit, Machine, PoolModel, Stock
from tests.adapters.fabric.rig import A100, H100, M1, Desk, said


def machines(*entries: Any) -> Any:
    return {"data": {"machines": list(entries)}}


def refused(desk: Desk, ask: Callable[[], object]) -> str:
    with pytest.raises(FabricOdd) as caught:
        ask()
    text = str(caught.value)
    assert desk.asked[-1].headers["X-Request-Id"] in text
    assert "nothing of it was taken" in text or isinstance(caught.value, FabricPartly)
    return text


# -- machines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "fabric"), [(0, "0"), (17, "17"), ("0", "0"), ("rack-a", "rack-a"), ("a" * 63, "a" * 63), (None, "")]
)
def test_fabric_ids_are_numbers_or_text_or_none(tmp_path: Path, written: Any, fabric: str) -> None:
    desk = Desk(tmp_path, lambda request: said(machines({"mach_uuid": "M-1", "fabric_id": written, "more": [1]})))
    assert desk.provider.machines() == (Machine("m-1", "", fabric),)


@pytest.mark.parametrize("written", [-1, 1.5, True, "", "a b", "A", "a" * 64, "a/b", "-a", "ü", "a-fabric1", [], {}])
def test_fabric_ids_that_could_be_no_label(tmp_path: Path, written: Any) -> None:
    desk = Desk(tmp_path, lambda request: said(machines({"mach_uuid": "a"}, {"mach_uuid": "b", "fabric_id": written})))
    text = refused(desk, desk.provider.machines)
    assert "field data.machines.1.fabric_id " in text and "fm.machines" in text
    with pytest.raises(FabricPartly) as caught:
        desk.provider.machines()
    assert caught.value.machines == (Machine("a"),), "a strange machine hides no other"


@pytest.mark.parametrize("written", ["", " ", "a b", "a/b", "../x", "a\nb", 5, None, "x" * 200])
def test_machines_without_a_usable_uuid(tmp_path: Path, written: Any) -> None:
    desk = Desk(tmp_path, lambda request: said(machines({"mach_uuid": written})))
    assert "field data.machines.0.mach_uuid " in refused(desk, desk.provider.machines)


def test_machines_that_are_listed_twice(tmp_path: Path) -> None:
    one = {"mach_uuid": "a", "mach_name": "n", "fabric_id": 1}
    desk = Desk(tmp_path, lambda request: said(machines(one, one)))
    assert desk.provider.machines() == (Machine("a", "n", "1"),)
    desk.handler = lambda request: said(machines(one, {**one, "fabric_id": 2}))
    assert "field data.machines.1.fabric_id puts a machine into a second fabric" in refused(
        desk, desk.provider.machines
    )


def test_uuids_are_compared_in_small_letters_and_asked_for_as_they_are_written(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said(machines({"mach_uuid": "ABC-1", "fabric_id": 0})))
    [machine] = desk.provider.machines()
    assert machine.uuid == "abc-1"
    desk.handler = lambda request: said({"fabric_id": 0, "reserved_res_num_per_fabric": 2})
    desk.provider.stock(machine, A100)
    assert "/machines/ABC-1/available" in desk.calls[-1].url.path


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"5",
        b'"text"',
        b"<html>secret</html>",
        b"{}",
        b'{"data":null}',
        b'{"data":{"machines":null}}',
        b'{"data":{"machines":{}}}',
        b'{"data":{"machines":[null]}}',
        b'{"data":{"machines":[{"mach_uuid":"\\ud800"}]}}',
        b'{"data":{"machines":[{"mach_uuid":"\xff"}]}}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"\xef\xbb\xbf{}",
        b'{"data":{"machines":[]}} trailing',
    ],
)
def test_bodies_of_any_kind(tmp_path: Path, body: bytes) -> None:
    desk = Desk(tmp_path, lambda request: httpx.Response(200, content=body))
    text = refused(desk, desk.provider.machines)
    assert "secret" not in text and len(text) < 500


def test_a_name_is_for_people_and_made_harmless(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said(machines({"mach_uuid": "a", "mach_name": "rack\n3 " + "x y " * 100})))
    [machine] = desk.provider.machines()
    assert machine.name.startswith("rack 3 x y") and len(machine.name) == 200


# -- stock -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("free", [-1, 1_000_000, "3", 2.5, True, None, [], 10**400])
def test_counts_that_are_none(tmp_path: Path, free: Any) -> None:
    body = json.dumps({"fabric_id": 0, "reserved_res_num_per_fabric": free}).encode()
    desk = Desk(tmp_path, lambda request: httpx.Response(200, content=body))
    text = refused(desk, lambda: desk.provider.stock(M1, A100))
    assert "fm.available" in text and ("reserved_res_num_per_fabric" in text or "not JSON" in text)


@pytest.mark.parametrize(
    ("told", "fabric"), [({}, "0"), ({"fabric_id": 0}, "0"), ({"fabric_id": 3}, "3"), ({"fabric_id": None}, "")]
)
def test_the_fabric_that_an_answer_is_about(tmp_path: Path, told: Mapping[str, Any], fabric: str) -> None:
    desk = Desk(tmp_path, lambda request: said({"reserved_res_num_per_fabric": 999_999, **told}))
    assert desk.provider.stock(M1, A100) == Stock(fabric, A100.model, 999_999)


def test_models_of_any_name_arrive_whole(tmp_path: Path) -> None:
    model = PoolModel(0, 'NVIDIA "A100" & söhne=%41+1', "a", "d")
    desk = Desk(tmp_path, lambda request: said({"reserved_res_num_per_fabric": 0}))
    desk.provider.stock(M1, model)
    assert json.loads(desk.calls[0].url.params["condition"])["value"] == model.model


# -- limits ------------------------------------------------------------------------------------------------------------


def cluster(*specs: Any, uuid: str = "m-1") -> Callable[[httpx.Request], httpx.Response]:
    """A cluster manager with one group, and one machine with these specifications."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/nodegroups"):
            return said({"nodegroups": [{"uuid": "g-1", "name": "all"}]})
        if path.endswith("/nodegroups/g-1"):
            return said({"uuid": "g-1", "mach_ids": ["M-1"]})
        return said({"data": {"cluster": {"machine": {"uuid": uuid, "resspecs": list(specs)}}}})

    return answer


def spec(
    model: str, least: Any = None, most: Any = None, column: str = "model", operator: str = "eq"
) -> dict[str, Any]:
    conditions = [
        {"column": "vendor", "operator": "eq", "value": "NVIDIA"},
        {"column": column, "operator": operator, "value": model},
    ]
    found: dict[str, Any] = {
        "spec_uuid": "s",
        "type": "gpu",
        "selector": {"version": "1", "expression": {"conditions": conditions}},
    }
    return found | {"min_resspec_count": least, "max_resspec_count": most}


def test_specifications_are_told_apart_by_their_selector(tmp_path: Path) -> None:
    specs = (
        spec(A100.model, 1, 4),
        spec(H100.model, None, 0),
        spec("another", 5, 6),
        spec(A100.model, 9, 9, column="productname"),
        spec(A100.model, 9, 9, operator="ne"),
        {"min_resspec_count": 7},
        {"selector": {"expression": {"conditions": None}}, "max_resspec_count": 1},
        {"selector": {"expression": None}},
        {"selector": None},
    )
    desk = Desk(tmp_path, cluster(*specs), "cm")
    assert desk.provider.limits(M1, [A100, H100]) == {A100.model: Limit(4, 1), H100.model: Limit(0, None)}


def test_a_specification_without_numbers_is_no_limit(tmp_path: Path) -> None:
    assert Desk(tmp_path, cluster(spec(A100.model)), "cm").provider.limits(M1, [A100]) == {}
    assert Desk(tmp_path, cluster(), "cm").provider.limits(M1, [A100]) == {}


def test_an_answer_without_specifications_lifts_no_limit(tmp_path: Path) -> None:
    """None of them is no limit; that nothing is said of them is an answer of another form."""

    def answers(machine: dict[str, Any]) -> Desk:
        whole = said({"data": {"cluster": {"machine": {"uuid": "m-1", **machine}}}})
        return Desk(tmp_path, lambda request: whole if "/machines/" in request.url.path else cluster()(request), "cm")

    assert answers({"resspecs": None}).provider.limits(M1, [A100]) == {}
    assert answers({"resspecs": []}).provider.limits(M1, [A100]) == {}
    desk = answers({"name": "m"})
    text = refused(desk, lambda: desk.provider.limits(M1, [A100]))
    assert "cm.machine" in text and "field data.cluster.machine.resspecs " in text


def test_of_several_specifications_the_strictest_counts(tmp_path: Path) -> None:
    specs = (spec(A100.model, 1, 8), spec(A100.model, 3, 2), spec(A100.model))
    assert Desk(tmp_path, cluster(*specs), "cm").provider.limits(M1, [A100]) == {A100.model: Limit(2, 2)}


@pytest.mark.parametrize("most", [-1, "4", 1.5, True, 10**7])
def test_limits_that_are_no_numbers(tmp_path: Path, most: Any) -> None:
    desk = Desk(tmp_path, cluster(spec(A100.model, 0, most)), "cm")
    text = refused(desk, lambda: desk.provider.limits(M1, [A100]))
    assert "cm.machine" in text and "field data.cluster.machine.resspecs.0.max_resspec_count " in text


def test_limits_of_another_machine(tmp_path: Path) -> None:
    desk = Desk(tmp_path, cluster(spec(A100.model, 0, 4), uuid="m-2"), "cm")
    assert "is of another machine than the one asked for" in refused(desk, lambda: desk.provider.limits(M1, [A100]))


def test_node_groups_that_cannot_be_had_fail_every_machine_once_a_round(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({}, 404), "cm")
    for _ in range(5):
        with pytest.raises(FabricRefused, match=r"cm\.nodegroups"):
            desk.provider.limits(M1, [A100])
    assert len(desk.calls) == 1


def test_a_cluster_manager_that_hangs_is_not_waited_for_by_each_of_its_groups(tmp_path: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/nodegroups"):
            return said({"nodegroups": [{"uuid": f"g-{number}"} for number in range(100)]})
        desk.clock.now += 60
        raise httpx.ReadTimeout("slow")

    desk = Desk(tmp_path, answer, "cm")
    began = desk.clock.now
    for _ in range(2):
        with pytest.raises(FabricUnreachable, match=r"cm\.nodegroup .*no whole answer within 60 s"):
            desk.provider.limits(M1, [A100])
    assert desk.clock.now - began == 60
    assert len(desk.calls) == 2


# -- CDIM --------------------------------------------------------------------------------------------------------------


def resource(
    id: Any, model: Any = A100.model, state: str = "Enabled", health: str = "OK", **more: Any
) -> dict[str, Any]:
    device = {"deviceID": id, "type": "GPU", "model": model, "status": {"state": state, "health": health}}
    return {"device": device, "detected": True, "nodeIDs": [], **more}


def cdim(*resources: Any, nodes: Any = ()) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        listed = request.url.path.endswith("/nodes")
        return said({"nodes": list(nodes)} if listed else {"resources": list(resources)})

    return answer


def test_free_devices_of_cdim(tmp_path: Path) -> None:
    adapter = {"device": {"deviceID": "io-1"}, "detected": True}
    found = (
        resource("gpu-2"),
        resource("gpu-1", health="Critical"),
        {"resource": resource("gpu-3")},
        resource("gpu-4", nodeIDs=["N-1"]),
        resource("gpu-5", detected=False),
        resource("gpu-6", state="Disabled"),
        resource("gpu-7", model="another"),
        adapter,
    )
    desk = Desk(tmp_path, cdim(*found), "nec")
    expected = (FreeDevice("gpu-1", False), FreeDevice("gpu-2"), FreeDevice("gpu-3"), FreeDevice("gpu-6", False))
    assert desk.provider.stock(M1, A100) == Stock("0", A100.model, 2, expected)
    assert desk.provider.stock(M1, H100) == Stock("0", H100.model, 0, ())


def test_nodes_of_cdim_are_named_by_the_end_of_their_provider_id(tmp_path: Path) -> None:
    nodes = ({"id": "nec://ABC-1", "name": "one"}, {"id": "abc-2"})
    desk = Desk(tmp_path, cdim(nodes=nodes), "nec")
    assert desk.provider.machines() == (Machine("abc-1", "one", "0"), Machine("abc-2", "", "0"))
    desk.handler = cdim(nodes=(*nodes, {"id": "ABC-2"}))
    assert "field nodes.2.id names a node twice" in refused(desk, desk.provider.machines)
    desk.handler = cdim(nodes=({"id": "nec://"},))
    assert "field nodes.0.id " in refused(desk, desk.provider.machines)


@pytest.mark.parametrize(
    ("found", "field"),
    [
        ((resource(""),), "resources.0.device.deviceID"),
        ((resource(" a"),), "resources.0.device.deviceID"),
        ((resource("é"),), "resources.0.device.deviceID"),
        ((resource(5),), "resources.0.device.deviceID"),
        ((resource("a"), resource("a")), "resources.1.device.deviceID names a device twice"),
        ((resource("a", nodeIDs="N"),), "resources.0.nodeIDs"),
        ((resource("a", detected="yes"),), "resources.0.detected"),
        ((None,), "resources.0"),
    ],
)
def test_odd_resources_of_cdim_are_left_out_and_told(tmp_path: Path, found: tuple[Any, ...], field: str) -> None:
    """A drive that was not detected or a card with another kind of model says nothing against the GPUs beside it."""
    desk = Desk(tmp_path, cdim(*found, resource("gpu-9")), "nec")
    assert desk.provider.left_out() is None
    stock = desk.provider.stock(M1, A100)
    assert "gpu-9" in [one.id for one in stock.devices or ()]
    told = desk.provider.left_out()
    assert told is not None and f"field {field}" in told and "such an entry is left out" in told
    assert desk.provider.stock(M1, H100).free == 0
    desk.handler = cdim(resource("gpu-9"))
    desk.handler, nodes = cdim(nodes=()), desk.handler
    desk.provider.machines()
    desk.handler = nodes
    desk.provider.stock(M1, A100)
    assert desk.provider.left_out() == ""


@pytest.mark.parametrize(
    ("more", "free"),
    [
        ({}, True),
        ({"annotation": {"available": False}}, False),
        ({"annotation": {"available": True}}, True),
        ({"annotation": {}}, False),
        ({"annotation": None}, True),
        ({"nodeIDs": None}, True),
        ({"nodeIDs": ["n1"]}, False),
        ({"detected": False}, False),
    ],
)
def test_what_cdim_would_not_attach_is_not_free(tmp_path: Path, more: dict[str, Any], free: bool) -> None:
    """An administrator takes devices out of use; a node has others."""
    desk = Desk(tmp_path, cdim(resource("a", **more)), "nec")
    assert desk.provider.stock(M1, A100).free == int(free)


@pytest.mark.parametrize("type", ["destinationFabricAdapter", "CPU", "memory", 5])
def test_what_has_a_link_of_any_kind_is_not_free(tmp_path: Path, type: Any) -> None:
    """CDIM's own filter (isUnused) counts links, whatever they lead to."""
    one = resource("a")
    device = {**one["device"], "links": [{"type": type, "deviceID": "x-1"}]}
    desk = Desk(tmp_path, cdim({**one, "device": device}, resource("b")), "nec")
    assert [each.id for each in desk.provider.stock(M1, A100).devices or ()] == ["b"]


@pytest.mark.parametrize(
    "other", [{"nodeIDs": ["n"]}, {"detected": False}, {"model": "another"}, {"health": "Critical"}]
)
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_entries_that_disagree_neither_is_offered(tmp_path: Path, other: dict[str, Any], turned: bool) -> None:
    both = [resource("a"), resource("a", **other)]
    desk = Desk(tmp_path, cdim(*(reversed(both) if turned else both), resource("b"), resource("b")), "nec")
    assert [each.id for each in desk.provider.stock(M1, A100).devices or ()] == ["b"]
    assert "names a device twice (and 1 more)" in (desk.provider.left_out() or "")


def test_models_and_states_of_cdim_in_another_case(tmp_path: Path) -> None:
    desk = Desk(tmp_path, cdim(resource("a", model=A100.model.upper(), state="enabled", health="ok")), "nec")
    assert desk.provider.stock(M1, A100).free == 1


@pytest.mark.parametrize("list", ["nodes", "resources"])
def test_one_page_of_a_list_of_cdim_is_no_list(tmp_path: Path, list: str) -> None:
    desk = Desk(tmp_path, lambda _: said({list: [], "count": 40}), "nec")
    question = desk.provider.machines if list == "nodes" else lambda: desk.provider.stock(M1, A100)
    assert "field count is above the number of entries: there are more pages" in refused(desk, question)


def test_an_error_that_cdim_calls_a_success_is_told_in_its_words(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda _: said({"code": "E50001", "message": "the database cannot be reached"}), "nec")
    with pytest.raises(FabricRefused, match="answers with 200: E50001 the database cannot be reached"):
        desk.provider.stock(M1, A100)


def test_errors_of_cdim_are_told_and_asked_for_once_a_round(tmp_path: Path) -> None:
    desk = Desk(tmp_path, lambda request: said({"code": "E40404", "message": "token=hunter2"}, 404), "nec")
    for model in (A100, H100):
        with pytest.raises(FabricRefused, match=r"nec\.resources .* answers with 404: E40404 token=\[removed\]"):
            desk.provider.stock(M1, model)
    assert len(desk.calls) == 1
    with pytest.raises(FabricRefused):
        desk.provider.machines()
    desk.handler = cdim(resource("gpu-1"))
    assert desk.provider.stock(M1, A100).free == 1


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", ["fm", "nec"])
def test_ten_thousand_of_everything_take_a_moment(tmp_path: Path, api: Any) -> None:
    if api == "fm":
        resources = [{"res_uuid": f"r-{n}", "res_type": "gpu", "res_status": 1} for n in range(10)]
        entries = [
            {"mach_uuid": f"m-{n}", "mach_name": f"node {n}", "fabric_id": n % 64, "resources": resources}
            for n in range(10_000)
        ]
        body = json.dumps(machines(*entries)).encode()
        desk = Desk(tmp_path, lambda request: httpx.Response(200, content=body))
        desk.provider.machines()
        began = time.process_time()
        assert len(desk.provider.machines()) == 10_000
    else:
        body = json.dumps({"resources": [resource(f"gpu-{n:05}") for n in range(10_000)]}).encode()
        desk = Desk(tmp_path, lambda request: httpx.Response(200, content=body), "nec")
        began = time.process_time()
        assert desk.provider.stock(M1, A100).free == 10_000
    assert (
        time.process_time() - began < 5.0
    )  # half a second, but each entry looked up among all others would take minutes


@pytest.mark.parametrize(
    ("form", "before", "item", "after"),
    [
        (FmMachines, b'{"data":{"machines":[', b"[],", b"1]}}"),
        (CmGroups, b'{"nodegroups":[', b"1,", b"1]}"),
        (CmGroupMembers, b'{"mach_ids":[', b"1,", b"1]}"),
        (NecNodes, b'{"nodes":[', b"1,", b"1]}"),
        (NecResources, b'{"resources":[', b"1,", b"1]}"),
        (CmGroups, b'{"nodegroups":[],"more":[', b'{"":1},', b"1]}"),
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 30 << 20])
def test_an_answer_of_very_many_small_values_is_refused_with_little_memory(
    form: type[Part], before: bytes, item: bytes, after: bytes, size: int
) -> None:
    """Small enough for a body, and a thousand times as large once each value, or each fault, is an object of its own."""
    body = before + item * (size // len(item)) + after
    tracemalloc.start()
    try:
        if size > 1 << 20 or b"more" not in body:
            with pytest.raises(FabricOdd):
                read(form, body, "a call")
        else:
            read(form, body, "a call")
        assert tracemalloc.get_traced_memory()[1] < 96 << 20
    finally:
        tracemalloc.stop()


def test_machines_that_are_all_odd_are_counted_and_the_first_is_told(tmp_path: Path) -> None:
    body = json.dumps({"data": {"machines": [{}] * 40_000}}).encode()
    desk = Desk(tmp_path, lambda request: httpx.Response(200, content=body))
    tracemalloc.start()
    try:
        with pytest.raises(FabricPartly, match=r"field data\.machines\.0\.mach_uuid is missing \(and 39999 more\)"):
            desk.provider.machines()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
