"""Every rpc as Cluster Autoscaler makes it, over mTLS, with a client made by protoc: answers, refusals, and odd requests."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import grpc
import pytest
from msgspec.structs import replace

from dds_adapters.autoscaler.grpc_frontend import SERVICE as OURS
from dds_adapters.autoscaler.grpc_frontend import GrpcFrontend
from dds_adapters.autoscaler.provider import Away, BadRequest, Refused, Unknown
from dds_core.autoscaler.model import GroupsView, NodeRef
from tests.adapters.autoscaler.caller import SERVICE, Caller, ask, calling, core, refusal
from tests.adapters.autoscaler.served import Pki, serving
from tests.adapters.autoscaler.shelf import BARE, INTAKE, TEMPLATE, Shelf

CODE = grpc.StatusCode
OF_GROUP = ("NodeGroupTargetSize", "NodeGroupNodes", "NodeGroupTemplateNodeInfo")
CHANGES = ("NodeGroupIncreaseSize", "NodeGroupDecreaseTargetSize")


def node(name: str, provider_id: str = "") -> object:
    return ask.Node(name=name, providerID=provider_id or f"dds://{name}", labels={"a": "b"}, annotations={"c": "d"})


def test_both_sides_have_the_same_rpcs() -> None:
    assert OURS.full_name == SERVICE.full_name
    assert {one.name for one in OURS.methods} == {one.name for one in SERVICE.methods}


# -- answers -------------------------------------------------------------------------------------------------------------


def test_groups_have_their_bounds(ca: Caller) -> None:
    first, second = ca.NodeGroups().groups
    assert (first.id, first.min, first.max, first.debug) == ("intake", 1, 10, "servers without devices")
    assert (second.id, second.min, second.max, second.debug) == ("bare", 0, 3, "")


@pytest.mark.parametrize(
    ("asked", "group"),
    [
        (node("node-1", "anything"), "intake"),
        (node("dds://s3", "dds://s3"), "intake"),  # no Node yet
        (node("not-listed", "dds://s1"), "intake"),
        (node("withdrawn"), ""),
        (node("", ""), ""),
        (node("x" * 100_000, "\0\n\u202e"), ""),
    ],
    ids=["member", "fake", "instance", "withdrawn", "nameless", "odd"],
)
def test_the_group_of_a_node(ca: Caller, asked: object, group: str) -> None:
    answer = ca.NodeGroupForNode(ask.OfNode(node=asked))
    assert answer.HasField("group")
    assert answer.group.id == group
    assert answer.group.max == (10 if group else 0)


def test_a_request_without_a_node_is_of_no_group(ca: Caller) -> None:
    assert ca.NodeGroupForNode(ask.OfNode()).group.id == ""


def test_instances_with_their_states_and_failures(ca: Caller) -> None:
    found = ca.NodeGroupNodes(ask.OfGroup(id="intake")).instances
    state = ask.Status
    assert [(one.id, one.status.state) for one in found] == [
        ("dds://s1", state.RUNNING),
        ("dds://s2", state.DELETING),
        ("dds://s3", state.CREATING),
        ("dds://s4", state.CREATING),
    ]
    failures = [one.status.failure for one in found]
    assert [one.status.HasField("failure") for one in found] == [False, False, True, True]
    assert (failures[2].code, failures[2].message) == ("NoServer", "no server is left")
    assert [getattr(one, "class") for one in failures[2:]] == [1, 99]
    assert not ca.NodeGroupNodes(ask.OfGroup(id="bare")).instances


def test_a_template_is_a_node_with_all_that_it_says(ca: Caller) -> None:
    found = core.Node.FromString(ca.NodeGroupTemplateNodeInfo(ask.OfGroup(id="intake")).node)
    assert found.metadata.name
    assert dict(found.metadata.labels) == {
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": found.metadata.name,
        **TEMPLATE.labels,
    }
    assert dict(found.metadata.annotations) == TEMPLATE.annotations
    assert [(one.key, one.value, one.effect) for one in found.spec.taints] == [("dds", "new", "NoSchedule")]
    assert not found.spec.unschedulable
    for quantities in (found.status.capacity, found.status.allocatable):
        assert {name: one.string for name, one in quantities.items()} == TEMPLATE.capacity
    (ready,) = found.status.conditions
    assert (ready.type, ready.status, ready.since.seconds > 0) == ("Ready", "True", True)
    assert (found.status.info.os, found.status.info.arch) == ("linux", "arm64")


def test_an_older_caller_reads_the_same_template(ca: Caller) -> None:
    newer = ca.NodeGroupTemplateNodeInfo(ask.OfGroup(id="intake"))
    older = ask.OlderTemplate.FromString(
        newer.SerializeToString()
    )  # field 1 is among what the newer shape does not know
    assert older.node.SerializeToString(deterministic=True) == newer.node
    assert older.node.metadata.labels["cohdi.io/pool"] == "a100"


def test_a_group_without_a_template_is_never_answered_empty(ca: Caller) -> None:
    assert ca.refused("NodeGroupTemplateNodeInfo", ask.OfGroup(id="bare")) == (
        CODE.UNIMPLEMENTED,
        "group 'bare': nothing is known of a fresh server",
    )


def test_what_is_not_offered(ca: Caller) -> None:
    options = ask.OfOptions(id="intake", defaults=ask.Options(below=0.5))
    assert ca.refused("NodeGroupGetOptions", options)[0] is CODE.UNIMPLEMENTED
    assert ca.refused("PricingNodePrice", ask.NodePrice(node=node("node-1")))[0] is CODE.UNIMPLEMENTED
    assert ca.refused("PricingPodPrice", ask.PodPrice(pod=b"pod"))[0] is CODE.UNIMPLEMENTED


def test_no_gpu_label_and_nothing_to_clean_up(ca: Caller) -> None:
    assert ca.GPULabel().label == ""
    assert not ca.GetAvailableGPUTypes().types
    assert ca.Cleanup() == ask.Empty()
    assert ca.NodeGroups().groups  # it goes on


# -- changes ---------------------------------------------------------------------------------------------------------------


def size(ca: Caller) -> int:
    return int(ca.NodeGroupTargetSize(ask.OfGroup(id="intake")).size)


def test_sizes_change_by_what_is_asked(ca: Caller, shelf: Shelf) -> None:
    assert size(ca) == 4
    ca.NodeGroupIncreaseSize(ask.Change(id="intake", delta=2))
    assert size(ca) == 6
    ca.NodeGroupDecreaseTargetSize(ask.Change(id="intake", delta=-3))
    assert size(ca) == 3
    ca.NodeGroupDeleteNodes(
        ask.Nodes(id="intake", nodes=[node("node-1"), node("dds://s3", "dds://s3"), node("node-1")])
    )
    assert size(ca) == 1
    assert shelf.deleted == [NodeRef("node-1", "dds://node-1"), NodeRef("dds://s3", "dds://s3")]


def test_a_view_stays_until_the_next_refresh(ca: Caller, shelf: Shelf) -> None:
    shelf.next = GroupsView((replace(BARE, target=2),))
    assert [one.id for one in ca.NodeGroups().groups] == ["intake", "bare"]
    ca.Refresh()
    assert [one.id for one in ca.NodeGroups().groups] == ["bare"]
    assert ca.refused("NodeGroupTargetSize", ask.OfGroup(id="intake"))[0] is CODE.NOT_FOUND
    assert ca.NodeGroupForNode(ask.OfNode(node=node("node-1"))).group.id == ""


# -- refusals --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", ["", "nowhere", "in\ntake", "x" * 50_000, "😀" * 9000])
def test_an_unknown_group_is_not_found(ca: Caller, id: str) -> None:
    requests = {
        **{rpc: ask.OfGroup(id=id) for rpc in OF_GROUP},
        "NodeGroupIncreaseSize": ask.Change(id=id, delta=1),
        "NodeGroupDecreaseTargetSize": ask.Change(id=id, delta=-1),
        "NodeGroupDeleteNodes": ask.Nodes(id=id, nodes=[node("node-1")]),
    }
    for rpc, request in requests.items():
        code, words = ca.refused(rpc, request)
        assert code is CODE.NOT_FOUND, rpc
        assert len(words.encode()) <= 1000
        assert "\n" not in words


def test_an_unknown_node_is_not_found_and_nothing_is_deleted(ca: Caller, shelf: Shelf) -> None:
    request = ask.Nodes(id="intake", nodes=[node("node-1"), node("withdrawn")])
    assert ca.refused("NodeGroupDeleteNodes", request)[0] is CODE.NOT_FOUND
    assert ca.refused("NodeGroupDeleteNodes", ask.Nodes(id="bare", nodes=[node("node-1")]))[0] is CODE.NOT_FOUND
    assert ca.refused("NodeGroupDeleteNodes", ask.Nodes(id="bare", nodes=[node("😀" * 9000)]))[0] is CODE.NOT_FOUND
    assert (shelf.deleted, size(ca)) == ([], 4)


@pytest.mark.parametrize(
    ("rpc", "request_"),
    [
        ("NodeGroupIncreaseSize", ask.Change(id="intake", delta=0)),
        ("NodeGroupIncreaseSize", ask.Change(id="intake", delta=-(2**31))),
        ("NodeGroupDecreaseTargetSize", ask.Change(id="intake", delta=1)),
        ("NodeGroupDecreaseTargetSize", ask.Change(id="intake")),
        ("NodeGroupDeleteNodes", ask.Nodes(id="intake")),
        ("NodeGroupDeleteNodes", ask.Nodes(id="intake", nodes=[node("node-1"), ask.Node()])),
        ("NodeGroupDeleteNodes", ask.Nodes(id="intake", nodes=[node("node-1")] * 1001)),
    ],
)
def test_a_change_that_makes_no_sense(ca: Caller, shelf: Shelf, rpc: str, request_: object) -> None:
    code, words = ca.refused(rpc, request_)
    assert code is CODE.INVALID_ARGUMENT
    assert words.startswith("group 'intake': ")
    assert (shelf.deleted, size(ca)) == ([], 4)


def test_the_largest_change_reaches_the_provider_and_is_refused_there(ca: Caller) -> None:
    assert ca.refused("NodeGroupIncreaseSize", ask.Change(id="intake", delta=2**31 - 1))[0] is CODE.FAILED_PRECONDITION
    assert (
        ca.refused("NodeGroupDecreaseTargetSize", ask.Change(id="intake", delta=-(2**31)))[0]
        is CODE.FAILED_PRECONDITION
    )
    assert size(ca) == 4


class StillNeeded(Refused):
    """A refusal of a provider's own kind."""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unknown("no node", fix="look again"), CODE.NOT_FOUND),
        (StillNeeded("a claim is waiting"), CODE.FAILED_PRECONDITION),
        (BadRequest("no"), CODE.INVALID_ARGUMENT),
        (Away("the lease is another's"), CODE.UNAVAILABLE),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_refusal_of_the_provider_is_told_in_its_words(ca: Caller, shelf: Shelf, error: Exception, code: CODE) -> None:
    def refuse(name: str) -> None:
        raise error

    shelf.before = refuse
    changes = [ask.Change(id="intake", delta=1), ask.Change(id="intake", delta=-1)]
    for rpc, request in [*zip(CHANGES, changes, strict=True), ("Refresh", None)]:
        assert ca.refused(rpc, request) == (code, str(error))
    assert ca.refused("NodeGroupDeleteNodes", ask.Nodes(id="intake", nodes=[node("node-1")])) == (code, str(error))
    assert size(ca) == 4


# -- what goes wrong -------------------------------------------------------------------------------------------------------


def fail(name: str) -> None:
    raise KeyError("token=s3cret")


def end(name: str) -> None:
    raise SystemExit("token=s3cret")


@pytest.mark.parametrize("wrong", [fail, end])
@pytest.mark.parametrize("rpc", ["Refresh", "NodeGroupIncreaseSize"])
def test_an_error_of_ours_is_told_without_its_words(
    ca: Caller, shelf: Shelf, wrong: Callable[[str], None], rpc: str, caplog: pytest.LogCaptureFixture
) -> None:
    shelf.before = wrong
    request = None if rpc == "Refresh" else ask.Change(id="intake", delta=1)
    with caplog.at_level(logging.INFO):
        assert ca.refused(rpc, request) == (CODE.INTERNAL, "an error inside dds, which its log tells of")
    name = "KeyError" if wrong is fail else "SystemExit"
    (line,) = (record.getMessage() for record in caplog.records)
    assert re.fullmatch(rf"{rpc} failed with {name} at test_grpc_frontend\.py:\d+", line)
    shelf.before = lambda name: None
    ca.Refresh()
    assert size(ca) == 4


def test_a_view_that_cannot_be_told_is_an_error_of_ours(ca: Caller, shelf: Shelf) -> None:
    shelf.next = GroupsView((replace(INTAKE, target=2**31), BARE))
    ca.Refresh()
    assert ca.refused("NodeGroupTargetSize", ask.OfGroup(id="intake"))[0] is CODE.INTERNAL
    assert ca.NodeGroupTargetSize(ask.OfGroup(id="bare")).size == 0


@pytest.mark.parametrize("payload", [b"\xff\xff\xff", b"\x0a\x02\xff\xfe", b"\x0a\xff\xff\xff\xff\x7f"])
def test_a_malformed_message(ca: Caller, payload: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        code, words = refusal(lambda: ca.raw("NodeGroupTargetSize", payload))
    assert (code, words) == (CODE.INVALID_ARGUMENT, "the message is no NodeGroupTargetSizeRequest")
    assert not caplog.records


def test_a_huge_message_is_refused_and_the_connection_goes_on(ca: Caller) -> None:
    huge = ask.Node(name="node-1", annotations={"a": "x" * 5_000_000})
    assert ca.refused("NodeGroupForNode", ask.OfNode(node=huge))[0] is CODE.RESOURCE_EXHAUSTED
    assert size(ca) == 4


def test_unknown_fields_and_rpcs(ca: Caller) -> None:
    assert ca.raw("NodeGroupTargetSize", ask.OfGroup(id="intake").SerializeToString() + b"\xfa\x3f\x01x") == b"\x08\x04"
    assert refusal(lambda: ca.raw("AtomicIncreaseSize", b""))[0] is CODE.UNIMPLEMENTED


def test_each_call_is_one_line_at_debug_without_its_content(
    shelf: Shelf, pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "dds.autoscaler")
    with serving(GrpcFrontend(shelf), pki.files) as server, calling(server.port, pki.ca, pki.own) as caller:
        caller.Refresh()
        caller.refused("NodeGroupTargetSize", ask.OfGroup(id="somewhere"))
    _, first, second = (record.getMessage() for record in caplog.records if record.name == "dds.autoscaler")
    assert first.startswith("Refresh: OK after 0.")
    assert second.startswith("NodeGroupTargetSize: NOT_FOUND after 0.")
