"""A scenario is read whole or refused in one line that names file, line, column and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from dds_lab import shipped
from dds_lab.scenario import NotYaml, ScenarioError, parse, read_scenario, written

GOOD = """\
about: one pod
seed: 3
start: 2026-11-21T02:11:04Z
duration: 45s
cluster:
  models:
    - {model: A100 40G, device: nvidia-a100-40, product: NVIDIA A100 40GB PCIe, memory: 40Gi}
  fabrics:
    - devices: {A100 40G: 4}
  nodes:
    - count: 2
parts:
  scheduler: {profiles: {default-scheduler: {binding_timeout: 45s}}}
  fabric: {attach: {between: [1s, 1.4s]}}
  vendor: false
steps:
  - at: 0.1s
    run: {name: train-1, devices: {nvidia-a100-40: 1}, delete_after: 6s}
  - wait_for: {object: pods/train-1, has: spec.nodeName}
  - {after: 1s, cordon: {claim: train-1}}
mix:
  - {pods: 3, over: 1m, asks: [{devices: {nvidia-a100-40: 1}}]}
"""


def refused(old: str, new: str) -> str:
    assert old in GOOD
    with pytest.raises(ScenarioError) as caught:
        parse(GOOD.replace(old, new), "f.yaml")
    return str(caught.value)


def test_a_scenario_is_what_was_written() -> None:
    scenario = parse(GOOD, "f.yaml", "first")
    assert scenario.name == "first"
    assert scenario.start == 1_795_227_064_000_000
    assert scenario.duration == 45.0
    assert scenario.cluster.node_names() == ["node0000", "node0001"]
    assert scenario.parts.vendor is None
    assert scenario.parts.operator is not None
    assert scenario.parts.fabric.attach.between == (1.0, 1.4)
    assert [step.action for step in scenario.steps] == ["run", "wait_for", "cordon"]


def test_its_name_is_the_files_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "my_case.yaml"
    path.write_text(GOOD)
    assert read_scenario(path).name == "my_case"
    path.write_text("name: other\n" + GOOD)
    assert read_scenario(path).name == "other"


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        read_scenario(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="UTF-8"):
        read_scenario(tmp_path / "bytes.yaml")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("count: 2", "cuont: 2", "f.yaml:11:7: cluster.nodes[0].cuont: is no field here: did you mean count?"),
        ("seed: 3", "seed: -3", "f.yaml:2:7: seed: should be greater than or equal to 0"),
        ("seed: 3", "zzz: 3", "f.yaml:2:1: zzz: is no field here; known: name, about, seed"),
        ("count: 2", 'count: "2"', "f.yaml:11:14: cluster.nodes[0].count: must be a whole number"),
        ("vendor: false", "vendor: no", "f.yaml:15:11: parts.vendor: must have fields of its own"),
        ("at: 0.1s", "at: 1x", "f.yaml:17:9: steps[0].at: is no duration: write 250ms"),
        ("at: 0.1s", "at: 1m", "f.yaml:17:9: steps[0].at: comes after the end of the scenario (45s)"),
        ("02:11:04Z", "02:11:04", "f.yaml:3:8: start: names no time zone"),
        ("[1s, 1.4s]", "[1s]", "f.yaml:14:30: parts.fabric.attach.between[1]: is missing"),
        ("[1s, 1.4s]", "[2s, 1s]", "f.yaml:14:20: parts.fabric.attach: between needs the shorter duration first"),
        ("model: A100 40G, ", "", "f.yaml:7:7: cluster.models[0].model: is missing"),
        ("40Gi", "40GB", "f.yaml:7:89: cluster.models[0].memory: is no amount"),
        (
            ", cordon: {claim: train-1}",
            "",
            "f.yaml:20:5: steps[2]: does nothing: a step needs exactly one of run, withdraw",
        ),
        (
            "{claim: train-1}",
            "{clam: train-1}",
            "f.yaml:20:26: steps[2].cordon.clam: is no field here: did you mean claim?",
        ),
        ("{claim: train-1}", "{}", "f.yaml:20:25: steps[2].cordon: needs one of claim, pod"),
        ("after: 1s,", "after: 1s, at: 2s,", "f.yaml:20:5: steps[2]: has both at and after"),
        ("pods/train-1", "train-1", "f.yaml:19:24: steps[1].wait_for.object: "),
        ("has: spec.nodeName", "within: 1s", "f.yaml:19:15: steps[1].wait_for: needs exactly one of has, lacks, gone"),
    ],
)
def test_what_is_of_the_wrong_form_is_named(old: str, new: str, line: str) -> None:
    assert refused(old, new).startswith(line)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("{A100 40G: 4}", "{A10 40G: 4}", "no model 'A10 40G' is known here: did you mean A100 40G?"),
        ("count: 2", "fabric: 7", "f.yaml:11:15: cluster.nodes[0].fabric: no fabric '7' is known here; known: 1"),
        ("count: 2", "limits: {H100: {max: 1}}", "no model 'H100' is known here"),
        ("count: 2", "limits: {A100 40G: {min: 2, max: 1}}", "min is above max"),
        (
            "- count: 2",
            "- count: 2\n    - name: node",
            "f.yaml:12:7: cluster.nodes[1]: a group before it has node0000 too",
        ),
        ("- devices: {A100 40G: 4}", "- {id: 1}\n    - {id: 1}", "f.yaml:10:12: cluster.fabrics[1].id: another fabric"),
        (
            "{nvidia-a100-40: 1}, delete",
            "{nvidia: 1}, delete",
            "no class 'nvidia' is known here: did you mean nvidia-a100-40?",
        ),
        ("delete_after: 6s", "scheduler: other", "no scheduler 'other' is known here; known: default-scheduler"),
        ("cordon: {claim: train-1}", "cordon: node0009", "no node 'node0009' is known here: did you mean"),
        (
            "cordon: {claim: train-1}",
            "restart: {part: vendor}",
            "no running part 'vendor' is known here; known: claims,",
        ),
        ("cordon: {claim: train-1}", "resize: {model: A100 40G, by: -1, fabric: 2}", "no fabric '2' is known here"),
        ("after: 1s", "at: 0s", "f.yaml:20:10: steps[2].at: a step before it has a later one (0.1s)"),
        ("over: 1m", "over: 1m, namespaces: [other]", "no namespace 'other' is known here; known: composable-dra"),
        (
            "[{devices: {nvidia-a100-40",
            "[{devices: {x",
            "f.yaml:22:43: mix[0].asks[0].devices.x: no class 'x' is known",
        ),
        (
            "  nodes:",
            "  gates: {api: {DRADeviceTaint: true}}\n  nodes:",
            "no feature gate 'DRADeviceTaint' is known here: did you mean DRADeviceTaints",
        ),
        (
            "mix:",
            "faults: {fabric: [{kind: hang, nodes: [a]}]}\nmix:",
            "f.yaml:21:40: faults.fabric[0].nodes[0]: no node 'a'",
        ),
        (
            "mix:",
            "faults: {fabric: [{kind: wrong_device}]}\nmix:",
            "faults.fabric[0].kind: a wrong device is one of another model: name a second one",
        ),
        (
            "mix:",
            "faults: {chaos: {restart_vendor: 3m}}\nmix:",
            "faults.chaos.restart_vendor: no running part 'vendor' is known here; known: claims,",
        ),
        (
            "mix:",
            "faults: {wire: [{action: slow, users: ['system:kube-scheduler']}]}\nmix:",
            "faults.wire[0].users[0]: no user 'system:kube-scheduler' is known here; known: admin",
        ),
    ],
)
def test_a_name_that_stands_for_nothing_is_named_with_those_that_do(old: str, new: str, line: str) -> None:
    assert line in refused(old, new)


def test_several_faults_come_in_the_order_of_the_file() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse(GOOD.replace("seed: 3", "seed: -1").replace("count: 2", "count: 0").replace("pods: 3", "pods: 0"), "f")
    first, second, third, _ = str(caught.value).split("; ")
    assert first.startswith("f:2:7: seed")
    assert second.startswith("f:11:14: cluster.nodes[0].count")
    assert third.startswith("f:22:12: mix[0].pods")


def test_more_than_five_faults_are_counted() -> None:
    with pytest.raises(ScenarioError, match="and 3 more"):
        parse("".join(f"x{i}: 1\n" for i in range(8)), "f")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\na: 2\n", "f:2:1: a is there twice; keep one of them"),
        ("a: [1", "f:"),
        ("a: &x 1\nb: *x", "f:1:4: anchors and aliases (&name, *name) are not allowed"),
        ("a: !!python/object:os.system 1", "f:1:4: tags (!name) are not allowed"),
        ("a: 1\n---\nb: 2\n", "f:2:1: a second document begins"),
        ("{[1]: 2}", "f:1:2: a key is not text"),
        ("[" * 100, "f:1:41: is nested more than 40 levels deep"),
        ("a: \x00", "f: is not YAML"),
    ],
)
def test_what_is_not_usable_yaml_is_refused_with_its_place(text: str, line: str) -> None:
    with pytest.raises(NotYaml) as caught:
        parse(text, "f")
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("text", ["", "# nothing", "[]", "text", "3"])
def test_a_text_without_fields_is_no_scenario(text: str) -> None:
    with pytest.raises(ScenarioError, match="holds no fields"):
        parse(text, "f")


def test_a_scenario_that_says_nothing_has_every_default() -> None:
    scenario = parse("about: nothing\n", "f")
    assert scenario.duration == 600
    assert scenario.parts.scheduler is not None
    assert scenario.parts.scheduler.profiles["default-scheduler"].binding_timeout == 600


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("{workers: 16, watch_slices: true, plugin_rest: 0s, sync: 0s}", "ideal"),
        ("{workers: 1, plugin_rest: 10s, stale_writes: true}", "real"),
        ("{kind: real, watch_slices: true}", "real"),
    ],
)
def test_an_operator_as_it_was_described_before_its_kinds_is_read(operator: str, kind: str) -> None:
    found = parse(f"about: nothing\nparts: {{operator: {operator}}}\n", "f").parts.operator
    assert found is not None and found.kind == kind
    assert found.sync == (0.0 if "sync" in operator else 60.0)


@pytest.mark.parametrize("name", shipped.names())
def test_what_was_written_is_read_as_it_was(name: str) -> None:
    found = shipped.find(name)
    assert parse(written(found), "written") == found
