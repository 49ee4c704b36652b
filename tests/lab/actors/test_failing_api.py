"""Actors on an API that fails every few calls: they try again as the real components do, and in the end all is as wanted."""

from __future__ import annotations

from collections.abc import Callable

from dds_lab.api import status
from dds_lab.api.requests import Call
from dds_lab.client import ApiError, Client
from tests.lab.actors.plant import Plant

REASONS: tuple[Callable[[], ApiError], ...] = (
    lambda: status.internal("an error on the server"),
    lambda: status.too_many_requests(),
    lambda: status.timeout("the request did not complete"),
)


class Trouble:
    """Lets a share of the calls of all clients fail, until it is over; who begins to follow a resource gets there."""

    def __init__(self, plant: Plant, share: float, seed: str) -> None:
        self._random = plant.time.random(seed)
        self._share = share
        self.over = False
        self.failed = 0

    def __call__(self, call: Call) -> None:
        if call.verb != "watch" and not self.over and self._random.random() < self._share:
            self.failed += 1
            raise REASONS[self.failed % len(REASONS)]()

    def befall(self, client: Client) -> Client:
        client.before = self
        return client


class Troubled(Plant):
    """A plant whose actors have trouble with the API; people and the scheduler have none."""

    trouble: Trouble | None = None

    def client(self, user: str) -> Client:
        made = super().client(user)
        if user in ("test", "people", "kube-scheduler"):
            return made
        if self.trouble is None:
            self.trouble = Trouble(self, 0.2, "trouble")
        return self.trouble.befall(made)


def test_in_the_end_everything_is_as_wanted() -> None:
    pods = 6
    plant = Troubled(count=8, nodes=3, attach=[1.0])
    for number in range(pods):
        plant.pod_of(f"p{number}")
        plant.run(2)
    plant.run(120)
    assert plant.trouble is not None
    assert plant.trouble.failed > 30
    plant.trouble.over = True
    plant.run(240)
    assert all(plant.runs(f"p{number}") for number in range(pods))
    in_use = {one for one in plant.fabric.ledger.attached() if plant.fabric.users(one)}
    assert len(in_use) == pods
    for number in range(pods):
        plant.work.withdraw(f"p{number}")
    plant.run(2000)
    assert plant.user.list("resourceclaims") == []
    assert plant.user.list("composableresources") == []
    assert plant.fabric.ledger.attached() == {}
    assert plant.fabric.free("1", "A100 40G") == 8


def test_trouble_is_an_error_that_clients_know() -> None:
    for reason in REASONS:
        assert isinstance(reason(), ApiError)
