"""What is in use, from the allocations of claims."""

from typing import Any

from dds_core.matching.allocator import InUse
from dds_core.matching.quantities import NANO

KEY = ("d.example.com", "pool", "nic")


def result(share: str = "", admin: bool = False, **consumed: str) -> dict[str, Any]:
    found: dict[str, Any] = {"request": "r", "driver": KEY[0], "pool": KEY[1], "device": KEY[2]}
    if share:
        found |= {"shareID": share, "consumedCapacity": consumed}
    return found | ({"adminAccess": True} if admin else {})


def allocation(*results: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"results": list(results)}}


def test_an_allocation_of_nothing_holds_nothing() -> None:
    in_use = InUse()
    in_use.add({})
    assert not in_use.takes(KEY)


def test_a_whole_device() -> None:
    in_use = InUse()
    in_use.add(allocation(result()))
    assert in_use.takes(KEY) and KEY in in_use.devices
    in_use.remove(allocation(result()))
    assert not in_use.takes(KEY)


def test_an_administrator_takes_nothing() -> None:
    in_use = InUse()
    in_use.add(allocation(result(admin=True), result("s", admin=True, memory="1Gi")))
    assert not in_use.takes(KEY) and not in_use.consumed


def test_two_who_hold_the_same_device_are_two() -> None:
    """Not what a scheduler does; still the first who lets go must not free it."""
    in_use = InUse()
    in_use.add(allocation(result()))
    in_use.add(allocation(result()))
    in_use.remove(allocation(result()))
    assert in_use.takes(KEY)
    in_use.remove(allocation(result()))
    in_use.remove(allocation(result()))
    assert not in_use.takes(KEY)


def test_shares_add_up_and_go() -> None:
    in_use = InUse()
    in_use.add(allocation(result("a", bandwidth="2500Mi"), result("b", bandwidth="1Gi", lanes="2")))
    assert in_use.consumed[KEY] == {"bandwidth": (2500 * 2**20 + 2**30) * NANO, "lanes": 2 * NANO}
    in_use.remove(allocation(result("b", bandwidth="1Gi", lanes="2")))
    assert in_use.shares == {KEY: 1} and in_use.takes(KEY) and KEY not in in_use.devices
    in_use.remove(allocation(result("a", bandwidth="2500Mi")))
    assert not in_use.takes(KEY) and not in_use.consumed


def test_a_copy_is_its_own() -> None:
    in_use = InUse()
    in_use.add(allocation(result("a", bandwidth="1")))
    twin = in_use.copy()
    twin.add(allocation(result("b", bandwidth="1"), result()))
    assert in_use.consumed[KEY] == {"bandwidth": NANO} and KEY not in in_use.devices
