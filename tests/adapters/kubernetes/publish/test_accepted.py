"""Whatever entry is found good, the API server takes: a device that it refuses would keep its whole slice from being written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dds_adapters.kubernetes.publish.device_info import read_pool_config
from dds_adapters.kubernetes.write.tasks import Done
from dds_core.publisher.describe import pool_name
from dds_core.publisher.model import PoolModel
from tests.adapters.kubernetes.publish.booth import Booth, layouts, pool
from tests.adapters.kubernetes.samples import raw_of, sample
from tests.adapters.kubernetes.test_config import entry
from tests.support.drawn import examples

short = st.text(st.characters(codec="utf-8"), max_size=70)
names = st.sampled_from(
    [
        "a",
        "_",
        "numa",
        "A9_z",
        "a-b",
        "example.org/x",
        "x" * 32,
        "x" * 33,
        "example.org/",
        "/x",
        f"{'d' * 63}/x",
        "d..e/x",
    ]
) | st.from_regex(r"[a-z][a-z0-9_]{0,33}", fullmatch=True)
versions = st.sampled_from(["1.2.3", "0.0.0-rc.1+b", "1.2", "1.2.3-", "1.2.3-01", "01.2.3", "9" * 70 + ".0.0", ""])
typed = st.one_of(
    st.fixed_dictionaries({"string": short}),
    st.fixed_dictionaries({"int": st.integers(-(2**63) - 1, 2**63)}),
    st.fixed_dictionaries({"bool": st.booleans()}),
    st.fixed_dictionaries({"version": versions}),
)
quantities = st.one_of(
    st.integers(0, 20),
    st.sampled_from(["8", "1Ki", "2500m", "1.5", "1e1", "10", "0", "1n", "20Ei", ".5", "5.", "12E"]),
)
bounds = st.fixed_dictionaries({"min": quantities}, optional={"max": quantities, "step": quantities})
policies: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"default": quantities}),
    st.fixed_dictionaries({"default": quantities, "validValues": st.lists(quantities, min_size=1, max_size=11)}),
    st.fixed_dictionaries({"default": quantities, "validRange": bounds}),
)
capacities = st.one_of(
    quantities, st.fixed_dictionaries({"value": quantities | st.just(100)}, optional={"requestPolicy": policies})
)
entries = st.fixed_dictionaries(
    {
        "attributes": st.dictionaries(names, typed, max_size=5),
        "capacity": st.dictionaries(names, capacities, max_size=4),
    },
    optional={
        "allow_multiple_allocations": st.booleans(),
        "dra_attributes": st.dictionaries(names, short, max_size=3).map(lambda more: {"productName": "A", **more}),
    },
)

BOOTH = Booth()


def good(changes: dict[str, Any]) -> PoolModel | None:
    """The model, when nothing is wrong with its entry."""
    obj = sample("configmaps")
    obj["data"]["device-info"] = json.dumps([entry(**changes)])
    config, _ = read_pool_config(raw_of(obj), None)
    return config.models[0] if config.models else None


@examples(60, 500)
@given(entries)
def test_what_is_found_good_is_taken_and_kept_as_it_is(changes: dict[str, Any]) -> None:
    model = good(changes)
    if model is not None:
        name = pool_name(model.device, "1")
        write = pool(2, model=model, slices=layouts(2, model=model, pool=name))
        assert BOOTH.carry_out(write) in (Done(), Done(written=False))
        assert BOOTH.carry_out(write) == Done(written=False)


simple = st.fixed_dictionaries(
    {"capacity": st.fixed_dictionaries({"m": st.fixed_dictionaries({"value": st.just(12), "requestPolicy": policies})})}
)


@examples(50, 300)
@given(simple)
def test_request_policies_are_judged_as_the_api_server_does(changes: dict[str, Any]) -> None:
    model = good({**changes, "allow_multiple_allocations": True})
    policy = changes["capacity"]["m"]["requestPolicy"]
    device = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {"m": _as_texts({"value": 12, "requestPolicy": policy})},
    }
    spec = {"driver": "x.example", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "judged"},
        "spec": {**spec, "devices": [device]},
    }
    path = "/apis/resource.k8s.io/v1/resourceslices"
    answer = BOOTH.writer.ask("POST", path, query={"dryRun": "All"}, body=raw_of(body))
    assert (answer.code < 300) is (model is not None), answer.body


def _as_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_texts(one) for key, one in value.items()}
    return [_as_texts(one) for one in value] if isinstance(value, list) else str(value)
