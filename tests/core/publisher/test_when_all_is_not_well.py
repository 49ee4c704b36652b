"""Cool-downs, models and fabrics that go, no answers, other publishers, an API that drops or refuses, restarts."""

import pytest
from msgspec.structs import replace

from dds_core.model import Claim
from dds_core.publisher import events as e
from dds_core.publisher.model import Capacity, Host, Limit, Machine, PoolConfig, PoolSlice
from dds_core.publisher.rules import layout
from tests.support.publisher_world import (
    A100,
    A100_0,
    H100,
    PublisherWorld,
    alerts,
    labelled,
    pool_slice,
    published,
    usual,
    withdrawn,
)


def _cooling(board: PublisherWorld, node: str, on: bool, until: str = "true") -> list[e.Decision]:
    host = board.state.host(node)
    assert host is not None
    key = "cohdi.io/nvidia-a100-cooling"
    labels = {**host.labels, key: until} if on else {k: v for k, v in host.labels.items() if k != key}
    return board.see(Host(host.uid, host.name, host.machine, labels))


def test_a_pool_that_cools_down_is_tainted_in_smaller_slices_and_comes_back() -> None:
    board = usual(100)
    (asked,) = published(_cooling(board, "n2", True))
    assert asked.taint == "cohdi.io/cooling"
    assert [len(one.devices) for one in asked.slices] == [64, 36]
    board.write()
    before = board.names()
    (over,) = published(_cooling(board, "n2", False))
    assert over.taint == ""
    board.write()
    assert set(board.names()) == set(before)
    board.verified()


def test_a_cool_down_ends_at_its_time_though_nobody_takes_the_label_off() -> None:
    """Its scaler is gone for good."""
    board = usual(2)
    for node, seconds in (("n1", 60), ("n2", 90)):
        _cooling(board, node, True, str(board.now // 1_000_000 + seconds))
    board.write()
    assert published(board.wait(61)) == [], "one of them still asks"
    board.restart()
    (over,) = published(board.wait(30))
    assert over.taint == ""
    board.write()
    assert published(board.wait(3600)) == []
    board.verified()


@pytest.mark.parametrize("value", ["false", "1e9", "9" * 63, "1000"])
def test_a_label_that_asks_for_nothing_or_is_over_closes_no_pool(value: str) -> None:
    board = usual(2)
    assert published(_cooling(board, "n1", True, value)) == published(board.wait(3600)) == []
    board.verified()


def test_where_taints_are_dropped_what_nobody_holds_is_withdrawn() -> None:
    board = usual(3)
    board.feed(e.Capabilities(device_taints=False))
    board.claim("a", "n1", "nvidia-a100-1")
    _cooling(board, "n1", True)
    board.write()
    assert board.names() == ["nvidia-a100-1"]
    _cooling(board, "n1", False)
    board.write()
    assert len(board.names()) == 3


# -- what goes ----------------------------------------------------------------------------------------------------------------


def test_a_model_that_is_configured_no_more_goes_but_not_what_is_held() -> None:
    board = usual(2, models=(A100, H100))
    board.claim("a", "n1", "nvidia-a100-0")
    board.see(PoolConfig("config", models=(H100,)))
    board.write()
    assert board.names() == ["nvidia-a100-0"]
    assert withdrawn(board.gone(Claim, "c-a"))
    board.write()
    assert board.live() == []
    board.verified()


def test_a_fabric_that_is_gone_goes_after_a_while_and_comes_back() -> None:
    board = usual(2)
    board.feed(e.MachineGone("m-n1"))
    assert withdrawn(board.wait(100)) == [], "another machine is still in it"
    board.feed(e.MachineGone("m-n2"))
    assert withdrawn(board.wait(59)) == []
    decided = board.wait(2)
    assert [one.why for one in withdrawn(decided)] == ["fabric 0 is gone"]
    assert [one.labels for one in labelled(decided)] == [{"cohdi.io/fabric": None}]
    board.write()
    assert board.live() == []
    assert published(board.feed(e.MachineObserved(Machine("m-n1", "n1", "0")))) == [], (
        "it may have other devices by now"
    )
    board.stock(2)
    board.write()
    assert len(board.names()) == 2
    board.verified()


def test_no_answer_withdraws_nothing() -> None:
    board = usual(2)
    board.feed(e.FabricFailed("machines", "no answer"), e.FabricFailed("stock/0/NVIDIA A100", "no answer"))
    assert board.wait(86_400) == []
    assert len(board.names()) == 2


def test_a_start_without_an_answer_leaves_what_is_there_alone() -> None:
    board = PublisherWorld()
    board.see(pool_slice("nvidia-a100-fabric7-x", "nvidia-a100-fabric7", ("nvidia-a100-0",)))
    board.feed(e.Synced())
    assert board.wait(86_400) == []
    board.feed(e.FabricAnswered("machines"))
    assert withdrawn(board.wait(59)) == []
    assert withdrawn(board.wait(2)), "a whole answer has no such fabric"


def test_nothing_is_decided_without_the_config_map_or_on_a_stale_view() -> None:
    board = usual(2)
    board.feed(e.Stale("resourceclaims", 200))
    assert board.stock(1) == []
    assert len(published(board.feed(e.Synced()))) == 1
    board.write()
    assert board.gone(PoolConfig, "config") == []
    assert board.stock(5) == []
    assert len(board.names()) == 1


# -- who else writes ----------------------------------------------------------------------------------------------------------


def test_a_pool_that_another_publishes_is_left_alone_and_told_once() -> None:
    board = PublisherWorld()
    board.nodes("0", "n1")
    board.see(pool_slice("theirs", devices=("nvidia-a100-0",), owner=""))
    board.stock(2)
    decided = board.synced()
    assert published(decided) == []
    assert alerts(decided) == ["PoolOwnedByOther"]
    assert board.stock(3) == []
    assert published(board.gone(PoolSlice, "uid-theirs"))


def test_slices_that_carry_nobodys_mark_are_taken_over_in_place_when_the_policy_says_so() -> None:
    board = PublisherWorld(policy={"adopt": "reference"})
    board.nodes("0", "n1")
    board.see(pool_slice("theirs", devices=("nvidia-a100-0", "nvidia-a100-1"), owner="", generation=7))
    board.claim("a", "n1", "nvidia-a100-1")
    board.stock(2)
    (one,) = published(board.synced())
    assert one.adopt and one.drop == {}
    assert [(s.name, s.devices) for s in one.slices] == [("theirs", ("nvidia-a100-0", "nvidia-a100-1"))]
    assert one.generation == 7, "one write is enough, so the generation stays"
    board.write()
    assert [one.owner for one in board.live()] == ["dds-publisher"]
    board.verified()


def test_what_was_told_of_a_foreign_slice_is_over_once_it_was_taken_over_and_is_told_again_when_another_comes() -> None:
    board = PublisherWorld()
    board.nodes("0", "n1")
    board.see(pool_slice("theirs", devices=("nvidia-a100-0",), owner=""))
    board.stock(2)
    assert alerts(board.synced()) == ["PoolOwnedByOther"]
    board.feed(e.PolicyChanged(policy={"mode": "publish", "adopt": "reference"}))
    board.write()
    assert [key for key in board.state.notes.last_emitted.rows if key[0] == "Alerted"] == []
    assert alerts(board.see(pool_slice("others", devices=("nvidia-a100-5",), owner="another"))) == ["PoolOwnedByOther"]
    board.verified()


def test_a_slice_that_somebody_deletes_comes_back_ever_more_slowly() -> None:
    board = usual(2)
    instants, told = [], []
    for _ in range(10):
        board.gone(PoolSlice, board.live()[0].uid)
        began = board.now
        while not board.unwritten:
            told += alerts(board.wait(1))
        instants.append((board.now - began) // 1_000_000)
        board.write()
    assert instants[0] == 0
    assert instants == sorted(instants) and instants[-1] == 3600, "two that fight stay apart"
    assert told == ["ReadBackDiffers"]
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1"]


def test_what_does_not_show_after_its_write_is_written_again() -> None:
    board = usual(2)
    board.stock(3)
    assert board.write(observed=False) == 1
    assert board.wait(29) == []
    assert len(published(board.wait(2))) == 1
    board.write()
    assert len(board.names()) == 3


def test_an_api_that_drops_binding_conditions_gets_no_pool() -> None:
    board = PublisherWorld()
    board.nodes("0", "n1")
    board.stock(2)
    board.feed(e.Capabilities(binding_conditions=False))
    decided = board.synced()
    assert published(decided) == [] and alerts(decided) == ["BindingConditionsDropped"]
    assert published(board.feed(e.Capabilities()))


def test_devices_that_lost_their_conditions_go_at_once() -> None:
    board = usual(2)
    (one,) = board.live()
    board.see(replace(one, ordinary=one.devices, digest="other"))
    board.unwritten.clear()
    decided = board.feed(e.WriteRefused("id", "PoolPublished", "pool/x/y", 422, "BindingConditionsDropped"))
    assert withdrawn(decided)
    board.write()
    assert board.live() == []


def test_a_refused_write_is_tried_again_later_and_nothing_else_waits() -> None:
    board = usual(2, models=(A100, H100))
    board.stock(3)
    _, decision = board.unwritten.pop()
    board.feed(e.WriteRefused("id", "PoolPublished", decision.subject, 403, "Forbidden"))
    assert published(board.stock(4, model=H100))
    board.write()
    assert published(board.wait(29)) == []
    assert len(published(board.wait(2))) == 1
    board.write()
    assert len(board.names()) == 3


def test_no_pause_keeps_a_withdrawal_from_being_taken_back_when_a_device_was_taken() -> None:
    board = usual(2)
    board.stock(3)
    _, decision = board.unwritten.pop()
    board.feed(e.WriteRefused("id", "PoolPublished", decision.subject, 500, "InternalError"))
    assert withdrawn(board.see(PoolConfig("config", models=(H100,))))
    assert [one.slices[0].devices for one in published(board.claim("c", "n1", "nvidia-a100-0"))] == [("nvidia-a100-0",)]
    board.write()
    assert board.names() == ["nvidia-a100-0"]


# -- restarts, observe ----------------------------------------------------------------------------------------------------------


def test_a_restart_writes_nothing_when_nothing_changed_and_what_was_left_undone() -> None:
    board = usual(2)
    before = board.writes
    board.restart()
    assert board.write() == 0 and board.writes == before
    board.stock(3)
    board.unwritten.clear()
    board.restart()
    assert [one.reissued for one in published(board.decided)][-1]
    board.write()
    assert len(board.names()) == 3
    board.verified()


def test_an_empty_log_takes_up_the_names_that_are_there() -> None:
    first = usual(4)
    first.claim("a", "n1", "nvidia-a100-3")
    second = PublisherWorld()
    second.nodes("0", "n1", "n2")
    second.see(*first.live())
    second.claim("a", "n1", "nvidia-a100-3")
    second.stock(4)
    second.synced()
    assert second.write() == 0
    assert second.names() == first.names()


def test_observe_decides_and_writes_nothing() -> None:
    board = PublisherWorld(mode="observe")
    board.nodes("0", "n1")
    board.stock(2)
    assert [one.mode for one in published(board.synced())] == ["observe"]
    assert board.unwritten == [] and board.wait(3600) == []
    board.verified()


def test_the_config_map_can_only_lower_the_mode() -> None:
    board = usual(2)
    board.see(PoolConfig("config", models=(A100,), mode="observe"))
    assert [one.mode for one in published(board.stock(3))] == ["observe"]
    assert board.unwritten == []


# -- what is published of a device ----------------------------------------------------------------------------------------


def test_an_attribute_that_changes_changes_the_slice_without_a_restart() -> None:
    board = usual(2)
    richer = replace(A100, capacity={"memory": Capacity("80Gi")})
    board.see(PoolConfig("config", models=(richer,)))
    assert board.write() == 1
    assert board.wait(3600) == []


def test_a_shared_model_is_exclusive_where_the_api_drops_sharing() -> None:
    shared = replace(
        A100, shared=True, capacity={"memory": Capacity("80Gi", default="10Gi", valid_values=("10Gi", "80Gi"))}
    )
    board = usual(1, models=(shared,))
    (one,) = published(board.feed(e.Capabilities(shared_devices=False)))
    assert not one.model.shared and one.model.capacity == {"memory": Capacity("80Gi")}


# -- labels ----------------------------------------------------------------------------------------------------------------------


def test_limits_become_labels_on_change_only() -> None:
    board = usual(2)
    limits = {A100.model: Limit(most=4, least=1)}
    (one,) = labelled(board.feed(e.MachineObserved(Machine("m-n1", "n1", "0", limits))))
    assert one.labels == {"cohdi.io/nvidia-a100-size-max": "4", "cohdi.io/nvidia-a100-size-min": "1"}
    board.write()
    assert board.wait(3600) == []
    (one,) = labelled(board.feed(e.MachineObserved(Machine("m-n1", "n1", "0", {A100.model: Limit(most=4)}))))
    assert one.labels == {"cohdi.io/nvidia-a100-size-min": None}


def test_labels_of_nodes_whose_machine_nobody_knows_are_left_alone() -> None:
    board = usual(2)
    assert labelled(board.see(Host("h-x", "x", "m-x", {"cohdi.io/fabric": "3"}))) == []


def test_a_machine_that_moves_takes_its_node_along() -> None:
    board = usual(2)
    (one,) = labelled(board.feed(e.MachineObserved(Machine("m-n2", "n2", "1"))))
    assert (one.node, one.labels) == ("n2", {"cohdi.io/fabric": "1"})


def test_one_broken_pool_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = layout.laid_out

    def fails_for_a100(pool: str, *args: object, **more: object) -> object:
        if pool == A100_0[1]:
            raise ZeroDivisionError
        return real(pool, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(layout, "laid_out", fails_for_a100)
    board = PublisherWorld(models=(A100, H100))
    board.nodes("0", "n1")
    board.stock(2)
    board.stock(2, model=H100)
    decided = board.synced()
    assert [one.pool for one in published(decided)] == ["nvidia-h100-fabric0"]
    assert alerts(decided) == ["RuleError"]
