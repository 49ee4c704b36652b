"""The contract of every fabric's provider: it reports machines and free devices; if it cannot, it raises an error and works again
afterwards.

A package that adds an API derives its tests from `FabricContract` and provides the fixture `world`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol

import pytest

from dds_adapters.fabric.fabric_settings import FABRIC_ID, checked_id
from dds_adapters.fabric.provider import FabricError, FabricPartly, Provider
from dds_core.publisher.model import Machine, PoolModel

HARMLESS = ("entries", "gzip", "bom", "case", "expired")
"""Troubles that hide nothing: beside the good entries some that cannot be read and one that is listed twice; a compressed
answer; a byte order mark; ids in the other case; a token that expires during a call."""
FAILING = ("page", "task", "busy", "web page", "login page", "redirect", "late")
"""Troubles without an answer: one page of several; 202 with a task; 429; a gateway's page of HTML, with 502 and with 200; a
redirect; half an answer, and then nothing."""
TROUBLES = HARMLESS + FAILING


class World(Protocol):
    """A fabric with two machines and five free devices of a model."""

    @property
    def model(self) -> PoolModel:
        """The model of the devices."""
        ...

    @property
    def secrets(self) -> Sequence[str]:
        """Passwords and tokens; no error of the provider may contain one."""
        ...

    def open(self) -> Provider:
        """A new provider, as in a new process."""
        ...

    def take(self) -> None:
        """Attach one of the free devices to a machine."""
        ...

    def away(self) -> AbstractContextManager[object]:
        """Within the block no request is answered."""
        ...

    def half(self) -> AbstractContextManager[object]:
        """Within the block answers end in the middle."""
        ...

    @property
    def troubles(self) -> Collection[str]:
        """Those of `TROUBLES` that the API can have."""
        ...

    def spoilt(self, how: str) -> AbstractContextManager[object]:
        """Within the block there is this trouble; after it a pause that the manager asked for is over."""
        ...


def free(provider: Provider, world: World) -> list[int]:
    """The number of free devices that the provider reports for each machine, in a new round."""
    return [provider.stock(one, world.model).free for one in listed(provider)]


def listed(provider: Provider) -> Sequence[Machine]:
    """The machines that could be read."""
    try:
        return provider.machines()
    except FabricPartly as partly:
        return partly.machines


class FabricContract:
    """Derive from it and provide the pytest fixture `world`."""

    def test_machines_have_a_uuid_each_and_a_fabric_that_can_be_in_the_name_of_a_pool(self, world: World) -> None:
        machines = world.open().machines()
        assert len({one.uuid for one in machines}) == len(machines) == 2
        for one in machines:
            assert one.uuid and one.uuid == one.uuid.lower()
            assert one.limits is None
            assert FABRIC_ID.fullmatch(one.fabric) and checked_id(one.fabric)

    def test_machines_of_a_fabric_are_told_the_same_stock(self, world: World) -> None:
        provider = world.open()
        assert free(provider, world) == [5, 5]
        for machine in provider.machines():
            stock = provider.stock(machine, world.model)
            assert (stock.fabric, stock.model) == (machine.fabric, world.model.model)
            if stock.devices:
                assert sum(one.healthy for one in stock.devices) == stock.free

    def test_a_new_round_sees_what_was_attached(self, world: World) -> None:
        provider = world.open()
        assert free(provider, world) == [5, 5]
        world.take()
        assert free(provider, world) == [4, 4] == free(world.open(), world)

    def test_of_a_model_that_it_does_not_have_nothing_is_free(self, world: World) -> None:
        provider = world.open()
        other = PoolModel(99, "No such model", "no-such-model", world.model.driver)
        for machine in provider.machines():
            assert provider.stock(machine, other).free == 0

    def test_limits_are_of_the_models_that_were_asked_for(self, world: World) -> None:
        provider = world.open()
        for machine in provider.machines():
            limits = provider.limits(machine, [world.model])
            assert limits is None or limits.keys() <= {world.model.model}
            assert not provider.limits(machine, [])

    def test_without_an_answer_there_is_an_error_and_afterwards_all_is_as_before(self, world: World) -> None:
        provider = world.open()
        machines = provider.machines()
        for trouble in (world.away, world.half):
            with trouble():
                _unanswered(provider, machines, world)
            assert free(provider, world) == [5, 5]

    def test_what_hides_nothing_costs_nothing_and_what_was_left_out_is_told(self, world: World) -> None:
        provider = world.open()
        machines = provider.machines()
        for how in [one for one in HARMLESS if one in world.troubles]:
            with world.spoilt(how):
                assert (how, listed(provider), free(provider, world)) == (how, machines, [5, 5])
                try:
                    told = bool(provider.machines() and provider.left_out())
                except FabricPartly as partly:
                    told = "\n" not in str(partly)
                assert told == (how == "entries"), how
        assert free(provider, world) == [5, 5]

    def test_what_is_no_answer_is_told_as_an_error_and_afterwards_all_is_as_before(self, world: World) -> None:
        provider = world.open()
        machines = provider.machines()
        for how in [one for one in FAILING if one in world.troubles]:
            with world.spoilt(how):
                assert not isinstance(_unanswered(provider, machines, world), FabricPartly), how
            assert (how, free(provider, world)) == (how, [5, 5])

    def test_it_may_be_asked_from_several_threads(self, world: World) -> None:
        provider = world.open()
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda _: free(provider, world), range(16)))
        assert answers == [[5, 5]] * 16

    def test_it_can_be_closed(self, world: World) -> None:
        provider = world.open()
        provider.machines()
        provider.close()


def _unanswered(provider: Provider, machines: Sequence[Machine], world: World) -> FabricError:
    """The error of a provider without an answer: one line without secrets, as all its other errors."""
    with pytest.raises(FabricError) as error:
        provider.machines()
    told = [str(error.value), *_stands(provider, machines, world.model)]
    assert not any(word in one for one in told for word in ("\n", *world.secrets))
    return error.value


def _stands(provider: Provider, machines: Sequence[Machine], model: PoolModel) -> Iterator[str]:
    """The errors of a provider that gets no answers. It may answer from values that it keeps for one round."""
    for machine in machines:
        try:
            assert provider.stock(machine, model).free == 5
        except FabricError as error:
            yield str(error)
