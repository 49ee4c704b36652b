"""The contract of every provider of machines: an order makes exactly one server, and a removal takes the right one.

A package that adds a kind derives its tests from `MachinesContract` and provides the fixture `world`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from random import Random
from threading import Barrier, Thread
from typing import Protocol

import pytest

from dds_adapters.fabric.provider import FabricError, FabricRefused
from dds_adapters.machines.provider import CONFLICT, Machines
from dds_core.autoscaler.records import Server
from dds_core.errors import InputError


class World(Protocol):
    """A system behind the provider. It has one node group with one server that was never ordered, and can make eight more."""

    @property
    def group(self) -> str:
        """The name of the node group."""
        ...

    @property
    def scheme(self) -> str:
        """The prefix before a server's name in its provider ID."""
        ...

    def open(self) -> Machines:
        """A new provider, as in a new process."""
        ...

    def settle(self) -> None:
        """Complete all pending orders and removals."""
        ...

    def there(self) -> set[str]:
        """The names of the existing servers, each of which costs money."""
        ...

    def scarce(self) -> None:
        """Make no further server available."""
        ...

    def broken(self) -> None:
        """Let the next server fail."""
        ...

    def lost(self) -> AbstractContextManager[object]:
        """Within the block the next write is carried out, but its answer is lost."""
        ...

    def away(self) -> AbstractContextManager[object]:
        """Within the block no request is answered."""
        ...

    def half(self) -> AbstractContextManager[object]:
        """Within the block answers end in the middle."""
        ...


def of(machines: Machines, order: str) -> Server:
    """The single server of an order."""
    [found] = [one for one in machines.servers() if one.order == order]
    return found


def composed(world: World, *orders: str) -> None:
    for order in orders:
        world.open().compose(order, world.group)
        world.settle()


def at_once(*calls: Callable[[], object]) -> None:
    barrier = Barrier(len(calls))
    failed: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        barrier.wait()
        try:
            call()
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=run, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert not failed


def orders(world: World) -> set[str]:
    """Orders of all servers that are not being deleted."""
    return {one.order for one in world.open().servers() if one.state != "deleting"}


def asked(call: Callable[..., None], *given: str) -> None:
    """Call and ignore a FabricError: the call may have been carried out or not."""
    with suppress(FabricError):
        call(*given)


def insisted(world: World, call: Callable[..., None], *given: str) -> None:
    """Call; if another change is still under way (CONFLICT), let that complete and call again."""
    try:
        call(*given)
    except FabricRefused as error:
        assert error.code == CONFLICT
        world.settle()
        call(*given)


class MachinesContract:
    """Derive from it and provide the pytest fixture `world`."""

    def test_what_was_never_ordered_is_shown_and_can_be_removed(self, world: World) -> None:
        machines = world.open()
        [server] = machines.servers()
        assert (server.group, server.order, server.state, server.code) == (world.group, "", "running", "")
        assert server.provider_id.startswith(world.scheme)
        machines.decompose(server.uid)
        assert machines.servers()[0].state == "deleting"
        world.settle()
        assert not machines.servers()
        assert not world.there()

    def test_an_order_is_one_server_from_the_first_moment(self, world: World) -> None:
        machines = world.open()
        machines.compose("a", world.group)
        assert (of(machines, "a").state, len(machines.servers())) == ("creating", 2)
        world.settle()
        server = of(machines, "a")
        assert (server.state, server.group, len(machines.servers())) == ("running", world.group, 2)
        assert server.provider_id.startswith(world.scheme)
        assert of(world.open(), "a") == server

    def test_an_order_asked_again_makes_nothing(self, world: World) -> None:
        machines = world.open()
        machines.compose("a", world.group)
        machines.compose("a", world.group)
        world.settle()
        world.open().compose("a", world.group)
        world.settle()
        assert len(world.there()) == 2
        assert of(machines, "a").state == "running"

    def test_an_order_whose_answer_was_lost(self, world: World) -> None:
        with world.lost(), pytest.raises(FabricError):
            world.open().compose("a", world.group)
        world.open().compose("a", world.group)
        world.settle()
        assert len(world.there()) == 2
        assert of(world.open(), "a").state == "running"

    def test_one_order_from_many_threads(self, world: World) -> None:
        one, two = world.open(), world.open()
        at_once(*[lambda by=by: by.compose("a", world.group) for by in (one, two, one, two)])
        world.settle()
        assert len(world.there()) == 2

    def test_several_orders_at_once_get_a_server_each(self, world: World) -> None:
        one, two = world.open(), world.open()
        at_once(
            lambda: one.compose("a", world.group),
            lambda: two.compose("b", world.group),
            lambda: one.compose("c", world.group),
        )
        world.settle()
        at_once(one.servers, two.servers)
        assert len({of(one, order).provider_id for order in "abc"}) == 3
        assert len(world.there()) == 4

    def test_the_server_that_was_meant_goes_once(self, world: World) -> None:
        composed(world, "a", "b", "c")
        machines, before = world.open(), world.there()
        server = of(machines, "b")
        machines.decompose(server.uid)
        machines.decompose(server.uid)
        assert of(machines, "b").state == "deleting"
        world.settle()
        assert before - world.there() == {server.provider_id.removeprefix(world.scheme)}
        world.open().decompose(server.uid)
        world.settle()
        assert {one.order for one in machines.servers()} == {"", "a", "c"}
        assert len(world.there()) == 3

    def test_a_removal_whose_answer_was_lost(self, world: World) -> None:
        composed(world, "a", "b")
        server, before = of(world.open(), "a"), world.there()
        with world.lost(), pytest.raises(FabricError):
            world.open().decompose(server.uid)
        for _ in range(3):
            with world.lost():
                asked(world.open().decompose, server.uid)
        world.open().decompose(server.uid)
        world.settle()
        assert before - world.there() == {server.provider_id.removeprefix(world.scheme)}

    def test_several_removals_at_once(self, world: World) -> None:
        composed(world, "a", "b", "c")
        one, two, before = world.open(), world.open(), world.there()
        a, c = of(one, "a"), of(one, "c")
        at_once(lambda: one.decompose(a.uid), lambda: two.decompose(c.uid), lambda: two.decompose(a.uid))
        world.settle()
        assert before - world.there() == {one.provider_id.removeprefix(world.scheme) for one in (a, c)}

    def test_an_order_that_has_ended_makes_nothing(self, world: World) -> None:
        composed(world, "a")
        machines = world.open()
        machines.decompose(of(machines, "a").uid)
        world.settle()
        composed(world, "a")
        assert len(world.there()) == 1
        assert orders(world) == {""}

    def test_an_id_that_is_not_there_removes_nothing(self, world: World) -> None:
        composed(world, "a")
        world.open().decompose(f"{world.group}/nothing")
        world.open().decompose(f"{world.group}/+nothing")
        for wrong in ("", "nothing", "/a", f"{world.group}/"):
            with pytest.raises(FabricRefused, match="no id of a server"):
                world.open().decompose(wrong)
        world.settle()
        assert len(world.there()) == 2

    @pytest.mark.parametrize("order", ["", " ", "a b", "-a", "a\n", "ä", "a" * 129])
    def test_an_order_without_a_name_that_can_be_kept(self, world: World, order: str) -> None:
        with pytest.raises(InputError, match="no name of an order"):
            world.open().compose(order, world.group)

    def test_a_failure_is_shown_until_it_is_removed(self, world: World) -> None:
        world.broken()
        composed(world, "a")
        machines = world.open()
        server = of(machines, "a")
        assert (server.state, server.out_of_resources, bool(server.code), bool(server.message)) == (
            "failed",
            False,
            True,
            True,
        )
        machines.decompose(server.uid)
        world.settle()
        assert orders(world) == {""}
        composed(world, "b")
        assert of(machines, "b").state == "running"

    def test_no_server_is_to_be_had(self, world: World) -> None:
        world.scarce()
        composed(world, "a")
        machines = world.open()
        server = of(machines, "a")
        assert (server.state, server.out_of_resources, bool(server.message)) == ("failed", True, True)
        machines.compose("a", world.group)
        assert of(machines, "a") == server
        machines.decompose(server.uid)
        world.settle()
        assert [one.order for one in machines.servers()] == [""]

    def test_nothing_is_done_while_nothing_is_answered(self, world: World) -> None:
        composed(world, "a")
        machines, id = world.open(), of(world.open(), "a").uid
        for trouble in (world.away, world.half):
            with trouble():
                for call in (
                    machines.servers,
                    lambda: machines.compose("b", world.group),
                    lambda: machines.decompose(id),
                ):
                    with pytest.raises(FabricError):
                        call()
            world.settle()
            assert len(world.there()) == 2
        composed(world, "b")
        assert orders(world) == {"", "a", "b"}

    @pytest.mark.parametrize("seed", range(4))
    def test_whatever_is_asked_in_whatever_order(self, world: World, seed: int) -> None:
        """After random orders, removals, lost answers, new processes and late servers, exactly the ordered servers exist."""
        random, wanted, machines, number = Random(seed), set[str](), world.open(), 0
        for _ in range(30):
            match random.randrange(6):
                case 0 | 1 if len(wanted) < 6:
                    number += 1
                    wanted.add(f"o{number}")
                    with world.lost() if random.random() < 0.3 else nullcontext():
                        asked(machines.compose, f"o{number}", world.group)
                    insisted(world, machines.compose, f"o{number}", world.group)
                case 2 if wanted:
                    world.settle()
                    order = random.choice(sorted(wanted))
                    wanted.discard(order)
                    id = of(machines, order).uid
                    with world.lost() if random.random() < 0.5 else nullcontext():
                        asked(machines.decompose, id)
                    insisted(world, machines.decompose, id)
                case 3:
                    machines = world.open()
                case 4:
                    world.settle()
                case _:
                    machines.servers()
        world.settle()
        assert sorted(one.order for one in machines.servers()) == sorted(["", *wanted])
        assert len(world.there()) == 1 + len(wanted)
