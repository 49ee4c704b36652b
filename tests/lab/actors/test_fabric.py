"""The fabric: what moves, what it costs, what goes wrong, and that the ledger has it all."""

from dds_lab.actors.fabric import LOST, Answer, Fabric
from dds_lab.scenario.parts import Fabrics
from dds_lab.scenario.trouble import REFUSED, FabricFault
from dds_lab.scenario.values import fixed
from dds_lab.time import VirtualTime

A100, H100 = "A100 40G", "H100 80G"
SECOND = 1_000_000


class Room:
    """A fabric with two machines on virtual time; answers are collected."""

    def __init__(
        self, *, count: int = 4, seed: int = 1, in_flight: int = 0, per_machine: int = 0, slots: int = 0
    ) -> None:
        self.time = VirtualTime(seed, 0)
        settings = Fabrics(
            attach=fixed(2.0),
            detach=fixed(1.0),
            in_flight=in_flight,
            in_flight_per_machine=per_machine,
            slots=slots,
        )
        self.fabric = Fabric(self.time, {("1", A100): count, ("1", H100): 1}, settings)
        self.fabric.connect("node0", "1")
        self.fabric.connect("node1", "1")
        self.answers: list[Answer] = []

    def attach(self, node: str = "node0", model: str = A100) -> None:
        self.fabric.attach(node, model, self.answers.append)

    def detach(self, resource: str, node: str = "node0") -> None:
        self.fabric.detach(node, resource, self.answers.append)

    def run(self, seconds: float) -> None:
        self.time.run(self.time.now() + round(seconds * SECOND))


def test_an_attached_device_is_the_machines_and_free_no_more() -> None:
    room = Room()
    room.attach()
    assert room.fabric.free("1", A100) == 3
    assert room.fabric.running("1", A100) == 1
    assert not room.answers
    room.run(2)
    (answer,) = room.answers
    assert answer.device is not None
    assert [one.device for one in room.fabric.attached("node0")] == [answer.device]
    assert room.fabric.where(answer.device.serial) == "node0"
    assert room.fabric.running("1", A100) == 0
    assert room.fabric.ledger.attached() == {answer.device.serial: "node0"}


def test_a_full_machine_gets_no_device_more_of_the_model_until_one_goes() -> None:
    room = Room(slots=2)
    for _ in range(3):  # the third while the first two are on their way
        room.attach()
    room.attach("node1")
    room.attach(model=H100)
    room.run(2)
    assert [one.error for one in room.answers if one.error] == [
        f"CDI manager: the machine of node0 has no slot for another {A100}"
    ]
    assert [len(room.fabric.attached(node)) for node in ("node0", "node1")] == [3, 1]
    room.detach(room.fabric.attached("node0")[0].device.resource)
    room.run(1)
    room.attach()
    room.run(2)
    assert not room.answers[-1].error


def test_a_detached_device_goes_to_the_end_of_the_pool() -> None:
    room = Room(count=2)
    room.attach()
    room.run(2)
    first = room.fabric.attached("node0")[0].device
    room.detach(first.resource)
    assert room.fabric.free("1", A100) == 1
    room.run(1)
    assert room.fabric.free("1", A100) == 2
    assert room.fabric.attached("node0") == ()
    room.attach()
    room.run(2)
    assert room.fabric.attached("node0")[0].device != first
    assert [entry.outcome for entry in room.fabric.ledger.of(first.serial)] == ["done", "ordered", "done"]


def test_the_lowest_free_minor_number_is_given_again() -> None:
    room = Room()
    for _ in range(3):
        room.attach()
    room.run(2)
    first, second, third = room.fabric.attached("node0")
    assert [first.minor, second.minor, third.minor] == [0, 1, 2]
    room.detach(second.device.resource)
    room.run(1)
    room.attach()
    room.run(2)
    again = room.fabric.attached("node0")
    assert [one.minor for one in again] == [0, 1, 2]
    assert again[1].device != second.device


def test_an_empty_pool_refuses_with_words() -> None:
    room = Room(count=0)
    room.attach()
    room.run(1)
    assert room.answers == [Answer(error="CDI manager: no free resource of model A100 40G in fabric 1")]
    assert room.fabric.ledger.count("attach", "failed") == 1


def test_a_node_without_a_machine_and_a_device_that_is_not_there_are_refused() -> None:
    room = Room()
    room.attach("elsewhere")
    room.detach("nothing")
    room.run(1)
    assert [answer.error for answer in room.answers] == [
        "CDI manager: no machine of a fabric is known for elsewhere",
        "CDI manager: the resource nothing cannot be removed from node0",
    ]


def test_what_is_built_in_is_seen_and_cannot_be_removed() -> None:
    room = Room()
    room.fabric.connect("node2", "1", fixed=[A100])
    (built_in,) = room.fabric.attached("node2")
    assert built_in.fixed
    room.detach(built_in.device.resource, "node2")
    room.run(1)
    assert room.answers[0].error
    assert room.fabric.attached("node2") == (built_in,)


def test_orders_wait_for_each_other_as_far_as_is_set() -> None:
    one_worker = Room(in_flight=1)
    for node in ("node0", "node1"):
        one_worker.attach(node)
    one_worker.run(2)
    assert len(one_worker.answers) == 1
    one_worker.run(2)
    assert len(one_worker.answers) == 2

    per_machine = Room(per_machine=1)
    for node in ("node0", "node0", "node1"):
        per_machine.attach(node)
    per_machine.run(2)
    assert len(per_machine.answers) == 2
    assert len(per_machine.fabric.attached("node1")) == 1
    per_machine.run(2)
    assert len(per_machine.fabric.attached("node0")) == 2


def test_a_refusal_befalls_as_many_orders_as_it_says() -> None:
    room = Room()
    room.fabric.faults.add(FabricFault(kind="refuse", times=2, nodes=("node0",)))
    for node in ("node0", "node1", "node0", "node0"):
        room.attach(node)
    room.run(2)
    assert [answer.error for answer in room.answers].count(REFUSED) == 2
    assert len(room.fabric.attached("node0")) == 1
    assert len(room.fabric.attached("node1")) == 1
    assert room.fabric.faults.waiting() == ()


def test_a_lifted_fault_befalls_nobody() -> None:
    room = Room()
    fault = FabricFault(kind="refuse")
    room.fabric.faults.add(fault)
    room.fabric.faults.lift(fault)
    room.attach()
    room.run(2)
    assert room.answers[0].device is not None


def test_a_hanging_order_does_nothing_until_the_callers_time_is_up() -> None:
    room = Room()
    room.fabric.faults.add(FabricFault(kind="hang", times=1))
    room.attach()
    room.run(179)
    assert room.answers == []
    assert room.fabric.ledger.unanswered() == (1,)
    room.run(1)
    assert room.answers == [Answer(error=LOST)]
    assert room.fabric.attached("node0") == ()
    assert room.fabric.free("1", A100) == 4


def test_after_a_lost_answer_the_device_is_there_and_the_ledger_knows() -> None:
    room = Room()
    room.fabric.faults.add(FabricFault(kind="lose_answer", times=1, words="connection reset"))
    room.attach()
    room.run(2)
    assert room.answers == [Answer(error="connection reset")]
    (there,) = room.fabric.attached("node0")
    (done,) = [entry for entry in room.fabric.ledger if entry.outcome == "done"]
    assert (done.serial, done.words) == (there.device.serial, "connection reset")


def test_a_wrong_device_is_of_another_model() -> None:
    room = Room()
    room.fabric.faults.add(FabricFault(kind="wrong_device", times=1))
    room.attach()
    room.run(2)
    (answer,) = room.answers
    assert answer.device is not None
    assert answer.device.model == H100
    assert room.fabric.free("1", A100) == 4
    assert room.fabric.free("1", H100) == 0


def test_of_two_devices_that_come_one_is_named() -> None:
    room = Room()
    room.fabric.faults.add(FabricFault(kind="second_device", times=1))
    room.attach()
    room.run(2)
    (answer,) = room.answers
    attached = [one.device for one in room.fabric.attached("node0")]
    assert len(attached) == 2
    assert answer.device in attached
    assert [entry.order for entry in room.fabric.ledger if entry.outcome == "done"] == [1, 1]


def test_a_device_that_was_taken_out_broken_comes_back_to_its_pool_once_it_is_repaired() -> None:
    room = Room()
    room.attach()
    room.run(2)
    device = room.fabric.attached("node0")[0].device
    room.fabric.drop(device.serial)
    room.detach(device.resource)
    room.run(1)
    changes: list[tuple[str, str]] = []
    room.fabric.on_pool(lambda fabric, model: changes.append((fabric, model)))
    assert room.fabric.free("1", A100) == 3
    room.fabric.restore(device.serial)
    room.fabric.restore(device.serial)
    assert room.fabric.free("1", A100) == 4
    assert changes == [("1", A100)]


def test_who_computes_on_a_device_is_known() -> None:
    room = Room()
    room.fabric.occupy("GPU-1", "default/train")
    room.fabric.occupy("GPU-1", "default/other")
    room.fabric.vacate("default/train")
    assert room.fabric.users("GPU-1") == ("default/other",)
    room.fabric.vacate("default/other")
    room.fabric.vacate("default/other")
    assert room.fabric.users("GPU-1") == ()


def test_by_chance_about_so_many_orders_are_hit() -> None:
    room = Room(count=200)
    room.fabric.faults.add(FabricFault(kind="refuse", share=0.25))
    for _ in range(200):
        room.attach()
    room.run(2)
    assert 30 <= room.fabric.ledger.count("attach", "failed") <= 70


def test_a_device_that_is_named_comes_and_not_the_next() -> None:
    room = Room(count=3)
    first, second, third = room.fabric.pool("1", A100)
    room.fabric.attach("node0", A100, room.answers.append, resource=third.resource)
    assert room.fabric.pool("1", A100) == (first, second)
    room.run(2)
    assert room.answers == [Answer(third)]


def test_a_named_device_that_is_not_free_is_refused() -> None:
    room = Room(count=3)
    taken = room.fabric.pool("1", A100)[0].resource
    room.attach()
    room.fabric.attach("node1", A100, room.answers.append, resource=taken)
    room.run(2)
    refused, _ = room.answers
    assert refused.device is None
    assert refused.error == f"CDI manager: the resource {taken} is not free in fabric 1"
    assert room.fabric.free("1", A100) == 2


def test_a_device_on_its_way_in_is_told() -> None:
    room = Room()
    first = room.fabric.pool("1", A100)[0]
    room.attach()
    assert room.fabric.coming() == ((first, "node0"),)
    room.run(2)
    assert room.fabric.coming() == ()


def test_a_machine_may_leave_its_fabric_while_a_device_is_on_its_way() -> None:
    room = Room()
    room.attach()
    room.fabric.disconnect("node0")
    room.run(2)
    assert len(room.fabric.attached("node0")) == 1
    assert room.fabric.running("1", A100) == 0


def test_the_fabric_tells_of_what_does_not_work() -> None:
    room = Room()
    room.attach()
    room.run(2)
    (plugged,) = room.fabric.attached("node0")
    room.fabric.drop(plugged.device.serial, "fell off its bus")
    assert room.fabric.attached("node0") == ()
    assert room.fabric.plugged("node0") == (plugged,)
    assert room.fabric.broken(plugged.device.serial) == "fell off its bus"
    room.detach(plugged.device.resource)
    room.run(2)
    assert room.fabric.out() == (plugged.device,)
    assert room.fabric.free("1", A100) == 3
    room.fabric.restore(plugged.device.serial)
    assert room.fabric.out() == ()
    assert room.fabric.pool("1", A100)[-1] == plugged.device


def test_a_machine_is_found_by_its_uuid() -> None:
    room = Room()
    machine = room.fabric.machine("node1")
    assert machine is not None
    assert room.fabric.machine_of(machine.uuid) == machine
    assert room.fabric.machine_of("somebody") is None
