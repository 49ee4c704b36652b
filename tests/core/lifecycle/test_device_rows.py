"""Every row of a device's life is reached by facts of a cluster, and the table is the one that was agreed on."""

from collections.abc import Callable

import pytest

from dds_core.errors import IllegalTransition
from dds_core.lifecycle import DEVICE_STATES, DEVICE_TABLE, device_target
from dds_core.scaler import events as e
from dds_core.scaler.folds import apply
from tests.core.lifecycle.lives import a_device_on_the_node, attached_locally, let_go, new
from tests.support.world import World

AGREED = {
    "requested": {("", "Attaching")},
    "online": {("Attaching", "Idle")},
    "taken": {("Attaching", "Used"), ("Idle", "Used"), ("Marked", "Used")},
    "freed": {("Used", "Idle")},
    "marked": {("Idle", "Marked")},
    "unmarked": {("Marked", "Idle")},
    "detaching": {(s, "Detaching") for s in ("Attaching", "Idle", "Used", "Marked")},
    "gone": {(s, "Gone") for s in ("Attaching", "Idle", "Used", "Marked", "Detaching")},
}
"""The life of a device as it was agreed on, written out a second time: trigger, then every (from, to)."""

Row = tuple[str, str, str]
ROWS: list[Row] = [(edge.trigger, edge.source, edge.target) for edge in DEVICE_TABLE]


def requested() -> World:
    """The operator asks the fabric: the resource `res` is Attaching."""
    world = new()
    world.request("composability-x", "node0", generate_name="composability-")
    world.resource("res", "node0", request="composability-x", state="Attaching")
    return world


def requested_and_not_there_until_online() -> World:
    world = requested()
    world.change_policy(device_ready="online")
    return world


def idle() -> World:
    world = new()
    a_device_on_the_node(world)
    return world


def marked() -> World:
    world = idle()
    world.resource("res", "node0", marked=True)
    return world


def leaving() -> World:
    world = idle()
    world.resource("res", "node0", state="Detaching", deleting=True)
    return world


PREPARED = {
    "": new,
    "Attaching": requested,
    "Idle": idle,
    "Used": attached_locally,
    "Marked": marked,
    "Detaching": leaving,
}


def the_operator_makes_it(world: World) -> None:
    world.resource("res", "node0", request="composability-x")


def the_operator_calls_it_online(world: World) -> None:
    world.resource("res", "node0", state="Online", uuid="GPU-res")


def a_claim_takes_it(world: World) -> None:
    world.resource("res", "node0", uuid="GPU-res")
    world.plug("node0", "gpu-GPU-res", "GPU-res")
    world.allocate_local("train", "node0", "gpu-GPU-res")


def somebody_marks_it(world: World) -> None:
    world.resource("res", "node0", marked=True)


def the_mark_comes_off(world: World) -> None:
    world.resource("res", "node0", marked=False)


def it_is_taken_away(world: World) -> None:
    world.resource("res", "node0", state="Detaching", deleting=True)


def its_resource_vanishes(world: World) -> None:
    world.gone(world.state.fleet.resources.rows["res"])


STORIES: dict[Row, tuple[Callable[[], World], Callable[[World], None]]] = {
    ("requested", "", "Attaching"): (new, the_operator_makes_it),
    ("online", "Attaching", "Idle"): (requested, the_operator_calls_it_online),
    **{("taken", s, "Used"): (PREPARED[s], a_claim_takes_it) for s in ("Idle", "Marked")},
    ("taken", "Attaching", "Used"): (requested_and_not_there_until_online, a_claim_takes_it),
    ("freed", "Used", "Idle"): (attached_locally, let_go),
    ("marked", "Idle", "Marked"): (idle, somebody_marks_it),
    ("unmarked", "Marked", "Idle"): (marked, the_mark_comes_off),
    **{("detaching", s, "Detaching"): (PREPARED[s], it_is_taken_away) for s in ("Attaching", "Idle", "Used", "Marked")},
    **{("gone", s, "Gone"): (PREPARED[s], its_resource_vanishes) for s in PREPARED if s},
}


def test_the_table_is_the_agreed_one() -> None:
    assert {(trigger, *pair) for trigger, pairs in AGREED.items() for pair in pairs} == set(ROWS)
    assert len(set(ROWS)) == len(ROWS)


def test_every_row_has_a_sentence_and_known_states() -> None:
    for edge in DEVICE_TABLE:
        assert edge.sentence.endswith("."), edge
        assert {edge.source, edge.target} <= {"", *DEVICE_STATES}


def test_every_row_has_its_story() -> None:
    assert set(STORIES) == set(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_row_is_reached_by_facts(row: Row) -> None:
    prepare, happens = STORIES[row]
    world = prepare()
    assert world.device("res") == row[1]
    before = len(world.device_moves("res"))
    happens(world)
    assert row in world.device_moves("res")[before:]


UNNAMED = [
    (trigger, state)
    for trigger in AGREED
    for state in PREPARED
    if not any(source == state for source, _ in AGREED[trigger])
]


@pytest.mark.parametrize(("trigger", "state"), UNNAMED, ids=lambda text: text or "New")
def test_an_unnamed_trigger_leads_nowhere_and_its_fold_raises_and_changes_nothing(trigger: str, state: str) -> None:
    assert device_target(trigger, state) is None
    world = PREPARED[state]()
    before = dict(world.state.lifecycle.devices.rows), world.state.process.now
    for target in DEVICE_STATES:
        with pytest.raises(IllegalTransition, match=trigger):
            apply(world.state, e.DeviceMoved("res", trigger, state, target), world.now + 1)
    assert (dict(world.state.lifecycle.devices.rows), world.state.process.now) == before


def test_a_transition_from_a_state_that_the_device_is_not_in_raises() -> None:
    world = idle()
    with pytest.raises(IllegalTransition, match="but the device is Idle"):
        apply(world.state, e.DeviceMoved("res", "online", "Attaching", "Idle"), world.now + 1)
    assert world.device("res") == "Idle"


def test_a_device_that_leaves_is_past_saving() -> None:
    """A mark, an Online or a claim that turns up now moves nothing: only its end is left."""
    world = leaving()
    moves = world.device_moves("res")
    somebody_marks_it(world)
    the_operator_calls_it_online(world)
    world.allocate_local("train", "node0", "gpu-GPU-res")
    assert world.device_moves("res") == moves
    its_resource_vanishes(world)
    assert world.device("res") == ""


def test_a_gone_device_leaves_nothing_behind() -> None:
    world = marked()
    its_resource_vanishes(world)
    assert not world.state.lifecycle.devices.rows
    assert not world.state.give_back.fences.rows
    assert not world.state.fleet.resources_at
    assert not world.state.lifecycle.idle_of_model
