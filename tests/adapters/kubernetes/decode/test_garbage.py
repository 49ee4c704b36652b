"""Whatever JSON stands in whatever field: a fact or a rejection, never an exception, and never an event that cannot be kept."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes import RESOURCES
from dds_core.events import Rejected, decode, encode
from tests.adapters.kubernetes.decode.test_canaries import ALL, at
from tests.adapters.kubernetes.samples import NamingView, Watched, raw_of, sample
from tests.support.drawn import examples

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2026-11-21T02:11:04Z"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)
yaml_texts = st.text(alphabet=st.sampled_from(list("[]{}:,-&*!|>'\"#%@ \n\tab1\x07é")), max_size=60) | st.text()


def survives(watched: Watched, resource: str, obj: Any, type: str) -> None:
    events = watched.sees(resource, obj, type)
    facts = [event for event in events if not isinstance(event, Rejected)]
    assert len(facts) <= 2  # the end of the name's last holder, and the change
    for event in events:
        assert decode(event.__class__.__name__, encode(event)) == event


@examples(80, 600)
@given(st.data())
def test_garbage_in_any_field(data: st.DataObject) -> None:
    watched = Watched(NamingView())
    resource = data.draw(st.sampled_from(sorted(RESOURCES)))
    if data.draw(st.booleans()):
        watched.sees(resource, sample(resource))
    obj: Any = sample(resource)
    for _ in range(data.draw(st.integers(1, 3))):
        _, path = data.draw(st.sampled_from([one for one in ALL if one[0] == resource]))
        try:
            place = at(obj, path[:-1])
            place[path[-1]] = data.draw(json_values)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier garbage took the place away
    for type in ("ADDED", "MODIFIED", "DELETED"):
        survives(watched, resource, copy.deepcopy(obj), type)


@examples(40, 200)
@given(st.sampled_from(sorted(RESOURCES)), st.binary(max_size=200) | json_values.map(raw_of))
def test_garbage_instead_of_an_object(resource: str, raw: bytes) -> None:
    for type in ("ADDED", "MODIFIED", "DELETED"):
        survives(Watched(), resource, raw, type)


@examples(40, 200)
@given(st.sampled_from(sorted(RESOURCES)), st.integers(0, 5000), st.binary(min_size=1, max_size=3))
def test_an_object_cut_or_damaged_anywhere(resource: str, place: int, damage: bytes) -> None:
    whole = raw_of(sample(resource))
    place %= len(whole)
    for raw in (whole[:place], whole[:place] + damage + whole[place + 1 :]):
        survives(Watched(), resource, raw, "MODIFIED")


@examples(60, 400)
@given(st.sampled_from(["device-info", "label-prefix", "fabric-id-range", "mode"]), yaml_texts)
def test_garbage_in_the_config_map(key: str, text: str) -> None:
    obj = sample("configmaps")
    obj["data"][key] = text
    survives(Watched(), "configmaps", obj, "MODIFIED")
