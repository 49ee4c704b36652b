"""Whatever an answer holds, it is taken as it should be or refused as odd: no other error, and nothing of it in the message."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.fabric import FabricOdd
from dds_adapters.fabric.answers import Part, read
from dds_adapters.fabric.fsas.managers import CmGroupMembers, CmGroups, CmMachineDetail, FmAvailable, FmMachines
from dds_adapters.fabric.fsas.token import ErrorBody, Login, claims_of, instant_of
from dds_adapters.fabric.nec.cdim import NecError, NecNodes, NecResources
from tests.adapters.fabric.rig import jwt
from tests.support.drawn import examples

WHERE = "call (request 1)"
CONDITION = {"column": "model", "operator": "eq", "value": "A"}
SPEC = {"selector": {"expression": {"conditions": [CONDITION]}}, "min_resspec_count": 0, "max_resspec_count": 4}
DEVICE = {"deviceID": "d", "model": "A", "status": {"state": "Enabled", "health": "OK"}}
GOOD: dict[type[Part], Any] = {
    Login: {"access_token": "t", "expires_in": 300},
    ErrorBody: {"status": 1, "detail": {"code": "E", "message": "m", "data": None}},
    FmMachines: {"data": {"machines": [{"mach_uuid": "m", "mach_name": "n", "fabric_id": 1}]}},
    FmAvailable: {"reserved_res_num_per_fabric": 1, "fabric_id": None},
    CmGroups: {"nodegroups": [{"uuid": "g", "name": "n"}]},
    CmGroupMembers: {"uuid": "g", "mach_ids": ["m"]},
    CmMachineDetail: {"data": {"cluster": {"machine": {"uuid": "m", "resspecs": [SPEC]}}}},
    NecNodes: {"nodes": [{"id": "n", "name": "n"}]},
    NecResources: {
        "resources": [{"device": DEVICE, "detected": True, "nodeIDs": []}, {"resource": {"device": DEVICE}}]
    },
    NecError: {"code": "E", "message": "m"},
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("CanaryQ7"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(("data", "resource")), inner, max_size=4)
    ),
    max_leaves=12,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, one in inner for deeper in places(one, (*path, key)))]


def taken_or_odd(form: type[Part], body: bytes) -> None:
    try:
        assert isinstance(read(form, body, WHERE), form)
    except FabricOdd as odd:
        assert str(odd).startswith(f"{WHERE}: ")
        assert "CanaryQ7" not in str(odd)


@pytest.mark.parametrize("form", GOOD)
def test_the_good_one_is_taken(form: type[Part]) -> None:
    assert isinstance(read(form, json.dumps(GOOD[form]).encode(), WHERE), form)


@examples(60, 400)
@given(st.sampled_from(list(GOOD)), st.data(), ANYTHING)
def test_anything_in_any_place(form: type[Part], data: st.DataObject, value: Any) -> None:
    body = copy.deepcopy(GOOD[form])
    path = data.draw(st.sampled_from(places(body)))
    if not path:
        body = value
    else:
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = value
    taken_or_odd(form, json.dumps(body).encode())


@examples(40, 200)
@given(st.sampled_from(list(GOOD)), st.binary(max_size=200))
def test_any_bytes(form: type[Part], body: bytes) -> None:
    taken_or_odd(form, body)


@examples(40, 200)
@given(
    st.text()
    | st.builds(lambda a, b, c: f"{a}.{b}.{c}", st.text(), st.text(), st.text())
    | st.builds(lambda value: jwt(exp=value), ANYTHING)
)
def test_any_token(token: str) -> None:
    instant = instant_of(claims_of(token), "exp")
    assert instant is None or 0 < instant < 1e11
