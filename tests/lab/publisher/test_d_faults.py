"""The numbered faults of the reference publisher, D1 to D13: each is not ours. Each is shown where it can be shown best, on the
rules alone, on the questions to a fabric, or in a lab with everything in it; that the judge finds those of the reference is shown
in tests/lab/publisher/test_judge.py."""

from __future__ import annotations

import re
from collections import Counter

from msgspec.structs import replace

from dds_adapters.fabric import FabricRefused, FabricUnreachable
from dds_core.publisher import events as e
from dds_core.publisher.model import Attribute, Capacity, PoolConfig
from dds_lab.manager import Login, ManagerSettings
from dds_lab.scenario.trouble import ManagerFault
from tests.adapters.fabric.rig import A100 as ASKED_A100
from tests.adapters.fabric.rig import H100 as ASKED_H100
from tests.adapters.fabric.test_survey import Played, asked, counted, failed
from tests.lab.publisher.test_attaching import A100 as POOL
from tests.lab.publisher.test_attaching import names_of, pods, ran, steps, story
from tests.support.publisher_world import A100, A100_0, H100, PublisherWorld, pool_slice, usual, withdrawn
from tests.support.publishing import Surroundings, change_models, publishing, write_login
from tests.support.publishing import written as cluster_of

TWO_NODES = steps(pods("a", "b", at=10, lasts="30s", on="node0000"))


def test_d1_the_name_of_a_device_is_not_its_place_among_what_is_free() -> None:
    """Any other device may go; the one that a claim holds, and all that nobody took, are called as before."""
    board = usual(5)
    board.claim("a", "n1", "nvidia-a100-4")
    board.stock(3)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-4"]
    board.stock(5)
    board.write()
    assert board.names() == [f"nvidia-a100-{number}" for number in range(5)]
    board.verified()


def test_d2_a_device_stays_listed_while_a_claim_holds_it_and_takes_no_room_of_others() -> None:
    """The device of the claim has been attached: the fabric has one less, the claim still holds the name."""
    board = usual(3)
    board.claim("a", "n1", "nvidia-a100-2")
    board.resource("x", "n1", "Attaching")
    board.stock(2)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2"]
    board.resource("x", "n1", "Online", "GPU-1")
    board.stock(2)
    board.write()
    assert board.names() == ["nvidia-a100-0", "nvidia-a100-1", "nvidia-a100-2"], "two for others, and the claim's"
    board.verified()


def test_d3_a_change_of_the_configuration_is_taken_up_at_once_even_of_one_attribute() -> None:
    with publishing(story("")) as run:
        run.lab.run(10)
        change_models(run.lab, lambda entries: entries[0]["dra-attributes"].update(architecture="Ampere"))
        run.lab.run(0.5)
        assert all(
            one["attributes"]["architecture"] == {"string": "Ampere"} for one in run.judge.view.listed(POOL).values()
        )
        assert run.judge.differences() == []


def test_d4_pools_of_models_and_fabrics_that_are_gone_go() -> None:
    board = PublisherWorld(models=(A100, H100))
    board.nodes("0", "n1")
    board.nodes("1", "n2")
    board.synced()
    for fabric in ("0", "1"):
        board.stock(2, fabric)
        board.stock(1, fabric, H100)
    board.write()
    config = board.state.config
    assert config is not None
    gone = withdrawn(board.see(replace(config, models=(A100,))))
    assert {one.pool for one in gone} == {"nvidia-h100-fabric0", "nvidia-h100-fabric1"}
    board.feed(e.MachineGone("m-n2"))
    assert withdrawn(board.wait(59)) == []
    assert {one.pool for one in withdrawn(board.wait(2))} == {"nvidia-a100-fabric1"}
    board.write()
    assert {one.pool for one in board.state.cluster.slices.rows.values()} == {"nvidia-a100-fabric0"}
    board.verified()


def test_d5_a_restart_while_the_manager_is_away_deletes_nothing_and_begins_no_generation_anew() -> None:
    with publishing(story(steps(pods("a", at=10, lasts="20s")))) as run:
        run.lab.run(13)
        run.lab.fabric.resize("1", "NVIDIA A100", 140)
        run.lab.run(7)
        run.ours.kill()
        before = {name: (one.generation, one.names) for name, one in run.judge.view.slices.items()}
        assert max(generation for generation, _ in before.values()) > 1
        away = ManagerFault(kind="away")
        run.manager.faults.add(away)
        run.another(run.empty_log()).start()
        run.lab.run(400)
        after = {name: (one.generation, one.names) for name, one in run.judge.view.slices.items()}
        assert after.keys() == before.keys()
        assert all(after[name][0] >= before[name][0] for name in before)
        run.manager.faults.lift(away)
        run.lab.run(300)
        run.at_rest()


def test_d6_a_pool_has_as_many_slices_as_it_takes() -> None:
    board = usual(300)
    assert [len(one.devices) for one in board.live()] == [128, 128, 44]
    assert {(one.generation, one.slices) for one in board.live()} == {(1, 3)}
    board.see(
        replace(next(iter(board.state.cluster.hosts.rows.values())), labels={"cohdi.io/nvidia-a100-cooling": "true"})
    )
    board.write()
    assert [len(one.devices) for one in board.live()] == [64, 64, 64, 64, 44]
    assert len(board.names()) == len(set(board.names())) == 300


def test_d7_another_machine_is_asked_when_one_does_not_speak_for_its_fabric() -> None:
    """Each round another one first; after an error, or an answer about another fabric, the next."""
    provider = Played()
    provider.wrong["stock m-0"] = FabricRefused("no", code=500)
    provider.moved["m-1"] = "9"
    answers = asked(provider, ASKED_A100)
    assert counted(answers) == [("0", ASKED_A100.model), ("1", ASKED_A100.model)]
    assert failed(answers) == []
    assert len({_asked_first(number) for number in range(3)}) == 3


def _asked_first(number: int) -> str:
    """Which machine of the first fabric is asked in this round."""
    provider = Played()
    asked(provider, ASKED_A100, round=number)
    return next(one for one in provider.asked if re.match(r"stock m-[012] ", one))


def test_d8_one_failing_question_stops_no_other() -> None:
    provider = Played()
    for number in range(3):
        provider.wrong[f"stock m-{number} {ASKED_A100.device}"] = FabricRefused("no", code=500)
    provider.wrong["limits m-4"] = FabricUnreachable("too slow")
    answers = asked(provider, ASKED_A100, ASKED_H100)
    assert counted(answers) == [("1", ASKED_A100.model), ("0", ASKED_H100.model), ("1", ASKED_H100.model)]
    assert failed(answers) == [f"stock/0/{ASKED_A100.model}", "limits/m-4"]
    board = usual(2)
    board.feed(e.FabricFailed("stock/0/NVIDIA A100", "no"))
    board.nodes("1", "n9")
    board.stock(3, "1")
    board.write()
    assert len(board.names((A100.driver, "nvidia-a100-fabric1"))) == 3
    assert len(board.names()) == 2, "what was answered before stands"


def test_d9_node_labels_are_patched_when_they_change_beside_others_who_write_nodes() -> None:
    with publishing(story("")) as run:
        admin = run.lab.client("admin")
        run.lab.run(10)
        assert [one for one in run.judge.writes if one.resource == "nodes"] == [], "they are as they should be"
        run.lab.fabric.connect("node0003", "")
        for number in range(40):
            admin.patch("nodes", "node0003", {"metadata": {"labels": {"example.com/count": str(number)}}})
            run.lab.run(0.25)
        assert "cohdi.io/fabric" not in run.judge.view.labels["node0003"], "it has left its fabric"
        assert run.judge.view.labels["node0003"]["example.com/count"] == "39"
        writes = [one for one in run.judge.writes if one.resource == "nodes"]
        assert [(one.verb, one.name) for one in writes] == [("patch", "node0003")]
        run.at_rest()


def test_d10_one_login_for_each_life_of_a_token_with_any_secret_and_with_new_ones_without_restart() -> None:
    odd = Login(password="a&b=c%20ü+ ", client_secret="x=y&z", username="o'neil@lab")
    around = Surroundings(manager=ManagerSettings(login=odd, token_life=100.0))
    with publishing(story(""), around) as run:
        run.lab.run(600)
        logins = [one for one in run.manager.seen if one.name == "token"]
        assert 5 <= len(logins) <= 10, "each token is used until 30 s before its end"
        assert all(one.status == 200 for one in logins)
        assert len(names_of(run)) == 4
        assert not [event for _, event in run.events(e.FabricFailed)]
        run.at_rest(60)


def test_d10_credentials_that_change_on_disk_are_used_without_a_restart() -> None:
    old = Login(password="what it was yesterday")
    with publishing(story(""), prepare=lambda run: write_login(old, run.folder)) as run:
        run.lab.run(30)
        failed = [event.text for _, event in run.events(e.FabricFailed) if isinstance(event, e.FabricFailed)]
        assert failed and not any(old.password in text for text in failed)
        assert run.judge.view.slices == {}
        write_login(run.manager.settings.login, run.folder)
        run.lab.run(70)
        assert len(names_of(run)) == 4
        run.at_rest()


def test_d11_each_model_is_asked_for_by_its_own_type() -> None:
    around = Surroundings(manager=ManagerSettings(types={"NVIDIA H100": "cxl"}))
    with publishing(story(""), around) as run:
        run.lab.run(10)
        pool = ("gpu.nvidia.com", "nvidia-h100-fabric1")
        assert names_of(run, pool) == [], "there are none of type gpu"
        change_models(run.lab, lambda entries: entries[1].update({"res-type": "cxl"}))
        run.lab.run(7)
        assert len(names_of(run, pool)) == 2
        asked_for = Counter(one.query["res_type"] for one in run.manager.seen if one.name == "available")
        assert asked_for["cxl"] and asked_for["gpu"]
        run.at_rest()


def test_d12_of_two_publishers_one_writes_and_the_other_ends() -> None:
    """Leases, metrics and health are held to in tests of the process; here that even without a lease two do not fight."""
    with publishing(story(TWO_NODES)) as run:
        run.lab.run(9)
        first = run.ours
        run.another().start()
        run.lab.run(2)
        writes = len(run.judge.writes)
        run.lab.fabric.resize("2", "NVIDIA A100", 1)
        run.lab.run(8)
        assert not first.alive and "epoch" in str(first.crashed)
        written = [one.name for one in run.judge.writes[writes:] if "fabric2" in one.name]
        assert len(written) == 1
        run.lab.run(200)
        assert ran(run) == {"a", "b"}
        run.at_rest()


def test_d12_who_has_no_log_in_common_is_told_by_the_mark_on_the_slices() -> None:
    """Slices that another publisher made are neither changed nor deleted, and a person is told."""
    board = usual(0, models=(A100,))
    board.see(pool_slice("theirs", "nvidia-a100-fabric1", ("nvidia-a100-0",), owner="another-publisher"))
    board.nodes("1", "n5")
    decided = board.stock(3, "1")
    assert [one.reason for one in decided if isinstance(one, e.Alerted)] == ["PoolOwnedByOther"]
    assert board.write() == 0


def test_d13_classes_that_ask_for_a_capacity_or_a_typed_attribute_match_pool_devices() -> None:
    """The same class matches the pool's device and the node's, so that the pod is served from the pool."""
    asking = """
models:
  - {model: NVIDIA A100, device: nvidia-a100, product: A100, memory: 80Gi}
classes:
  - name: nvidia-a100
    selectors:
      - device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0
      - device.attributes["gpu.nvidia.com"].type == "gpu"
fabrics:
  - {id: 1, devices: {NVIDIA A100: 2}}
nodes:
  - {count: 2, fabric: 1}
"""
    with publishing(cluster_of(asking, steps(pods("a", at=20, lasts="20s")))) as run:
        described = {"capacity": {"memory": "80Gi"}, "attributes": {"type": {"string": "gpu"}, "sockets": {"int": 1}}}
        change_models(run.lab, lambda entries: entries[0].update(described))
        run.lab.run(200)
        assert ran(run) == {"a"}
        run.at_rest()


def test_d13_every_type_of_value_is_published() -> None:
    model = replace(
        A100,
        attributes={
            "type": Attribute(string="gpu"),
            "slots": Attribute(integer=2),
            "ecc": Attribute(boolean=False),
            "driver": Attribute(version="1.2.3"),
        },
        capacity={"memory": Capacity("85899345920")},
    )
    board = PublisherWorld(models=(A100,))
    board.nodes("0", "n1")
    board.stock(1)
    board.synced()
    board.write()
    before = board.live(A100_0)[0].digest
    config = board.state.config
    assert isinstance(config, PoolConfig)
    (decided,) = [one for one in board.see(replace(config, models=(model,))) if isinstance(one, e.PoolPublished)]
    assert decided.model == model
    board.write()
    assert board.live(A100_0)[0].digest != before
    assert board.live(A100_0)[0].generation == 1
