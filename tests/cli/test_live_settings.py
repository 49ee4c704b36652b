"""Where the settings of `dds serve` come from, and what is said of those that cannot be used. Nothing is started here."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from dds_commands.live import policy_source
from dds_commands.live_options import OfServers, OfSurvey
from dds_commands.root import dds as root
from dds_commands.serve import PARTS
from dds_commands.settings import Setting, names_of
from dds_core.errors import PolicyError
from dds_core.scaler.policy import Policy
from tests.support.commands import REPOSITORY, dds, fine, one_line, program, refused

ALONE = [(part, name) for part, (_, options) in PARTS.items() for name in names_of(options)]
SECRET = "postgresql://dds:hunter2@db.example/dds?sslpassword=hunter3"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's environment nor its home."""
    for name in os.environ:
        if name.startswith(("DDS_", "DEVICE_NO_", "SCAN_", "KUBE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def shown(*args: str, env: Mapping[str, str] | None = None) -> dict[str, tuple[str, str]]:
    """Name → (value, origin), as --print-config shows it."""
    lines = fine("serve", "--print-config", *args, env=env or {}).splitlines()
    assert re.split(r"\s{2,}", lines[0]) == ["NAME", "VALUE", "FROM"]
    rows = [re.split(r"\s{2,}", line) for line in lines[1:]]
    return {name: (value, origin) for name, value, origin in rows}


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_defaults(tmp_path: Path) -> None:
    found = shown()
    assert found["log"] == (str(tmp_path / "state/dds/scaler.sqlite3"), "default")
    assert found["mode"] == ("observe", "default")
    assert found["health-probe-bind-address"] == ("127.0.0.1:8081", "default")
    assert found["metrics-bind-address"] == ("127.0.0.1:8080", "default")
    assert found["lease-namespace"] == ("composable-dra", "default")
    assert found["kubeconfig"] == (str(tmp_path / ".kube/config"), "default")
    assert {origin for _, origin in found.values()} == {"default"}
    assert not (tmp_path / "state").exists()


def test_without_a_state_directory_the_log_is_under_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    assert shown()["log"] == (str(tmp_path / ".local/state/dds/scaler.sqlite3"), "default")


def test_a_flag_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", "lease-name: file\nlease-duration: 30\nlease-retry-period: 1\n")
    env = {"DDS_CONFIG": config, "DDS_LEASE_NAME": "variable", "DDS_LEASE_DURATION": "20"}
    found = shown("--lease-name", "flag", env=env)
    assert found["lease-name"] == ("flag", "flag")
    assert found["lease-duration"] == ("20", "environment DDS_LEASE_DURATION")
    assert found["lease-retry-period"] == ("1", config)
    assert found["lease-renew-deadline"] == ("3", "default")


def test_switches_come_from_everywhere(tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", "leader-elect: yes\nmigrate: true\nmetrics-secure: true\n")
    found = shown("--config", config, "--no-migrate", env={"DDS_METRICS_SECURE": "false"})
    assert found["leader-elect"] == ("true", config)
    assert found["migrate"] == ("false", "flag")
    assert found["metrics-secure"] == ("false", "environment DDS_METRICS_SECURE")


def test_an_empty_variable_sets_nothing() -> None:
    assert shown(env={"DDS_LEASE_NAME": "", "DDS_LOG": ""})["lease-name"][1] == "default"


@pytest.mark.parametrize("form", ["yaml", "toml", "json"])
def test_forms_of_the_file(form: str, tmp_path: Path) -> None:
    text = {"yaml": "writers: 3", "toml": "writers = 3", "json": '{"writers": 3}'}[form]
    config = written(tmp_path / f"dds.{form}", text)
    assert shown("--config", config)["writers"] == ("3", config)


def test_every_setting_has_its_twins(tmp_path: Path) -> None:
    options = [option for option in root.commands["serve"].params if isinstance(option, Setting)]
    assert len(options) > 20
    for option in options:
        assert option.envvar == "DDS_" + option.key.upper().replace("-", "_")
    assert {option.key for option in options} <= shown().keys()


@pytest.mark.parametrize("way", ["flag", "environment", "file"])
def test_passwords_are_not_shown(way: str, tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", f"log: {SECRET}")
    args = {"flag": ["--log", SECRET], "environment": [], "file": ["--config", config]}[way]
    text = fine("serve", "--print-config", *args, env={"DDS_LOG": SECRET} if way == "environment" else {})
    assert "hunter" not in text
    assert "postgresql://dds:***@db.example/dds" in text


def test_a_kubeconfig_by_the_variable_of_kubectl() -> None:
    assert shown(env={"KUBECONFIG": "/k"})["kubeconfig"] == ("/k", "environment KUBECONFIG")
    assert shown(env={"KUBECONFIG": "/k", "DDS_KUBECONFIG": "/d"})["kubeconfig"] == ("/d", "environment DDS_KUBECONFIG")


# -- the policy ----------------------------------------------------------------------------------------------------


def test_the_policy_shows_where_each_field_comes_from(tmp_path: Path) -> None:
    policy = written(
        tmp_path / "policy.yaml",
        "mode: attach\nno_removal_seconds: 30\nscan_interval_seconds: 5\nlimits: {A100: {max: 3}}\n",
    )
    env = {"DDS_POLICY": policy, "DEVICE_NO_REMOVAL_DURATION": "99"}
    found = shown(env=env)
    assert found["policy"] == (policy, "environment DDS_POLICY")
    assert found["mode"] == ("attach", policy)
    assert found["policy.no_removal_seconds"] == ("99", "environment DEVICE_NO_REMOVAL_DURATION")
    assert found["policy.scan_interval_seconds"] == ("5", policy)
    assert found["policy.limits.A100.max"] == ("3", policy)
    assert found["policy.limits.A100.min"] == ("0", "default")
    assert found["policy.hand_over"] == ("exchange", "default")
    assert shown("--mode", "detach", env=env)["mode"] == ("detach", "flag")
    assert shown(env={**env, "DDS_MODE": "observe"})["mode"] == ("observe", "environment DDS_MODE")


def test_all_three_variables_of_the_reference() -> None:
    env = {"SCAN_INTERVAL": "7", "DEVICE_NO_REMOVAL_DURATION": "8", "DEVICE_NO_ALLOCATION_DURATION": "9"}
    found = shown(env=env)
    fields = ("scan_interval_seconds", "no_removal_seconds", "no_allocation_seconds")
    assert [found[f"policy.{field}"][0] for field in fields] == ["7", "8", "9"]


# -- what cannot be used -------------------------------------------------------------------------------------------


def test_unknown_names() -> None:
    assert "--lease-name" in refused("serve", "--lease-nam", "x")
    assert "3 s" not in refused("serve", "more")


def test_an_unknown_name_in_the_file_and_the_nearest_known(tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", "lease_name: x")
    said = refused("serve", "--config", config)
    assert said == f"dds: {config}: 'lease_name' is no setting; did you mean lease-name?"
    config = written(tmp_path / "dds.yaml", "zzz: x")
    assert "known are log, migrate," in refused("serve", "--config", config)
    config = written(tmp_path / "dds.yaml", "5: x")
    assert "5 is no setting" in refused("serve", "--config", config)


def test_a_wrong_value_is_told_with_where_it_stands(tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", "mode: attack")
    assert refused("serve", "--config", config).startswith(f"dds: {config}: mode: 'attack' is not one of")
    said = refused("serve", env={"DDS_LEASE_DURATION": "long"})
    assert said == "dds: environment DDS_LEASE_DURATION: lease-duration: 'long' is not a valid float; correct it there"
    assert "'--mode'" in refused("serve", "--mode", "attack")
    said = refused("serve", env={"DDS_METRICS_BIND_ADDRESS": "8080"})
    assert said.startswith("dds: environment DDS_METRICS_BIND_ADDRESS: metrics-bind-address: '8080' is no address")
    assert "--health-probe-bind-address: 'x:y'" in refused("serve", "--health-probe-bind-address", "x:y")


@pytest.mark.parametrize("value", ["[1, 2]", "{a: b}", "", "2026-11-21"])
def test_a_setting_has_one_value(value: str, tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", f"cluster-name: {value}")
    assert "cluster-name holds no single value" in refused("serve", "--config", config)


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "No such file" in refused("serve", "--config", str(tmp_path / "none.yaml"))
    config = written(tmp_path / "list.yaml", "- a")
    assert "it holds no fields" in refused("serve", "--config", config)
    config = written(tmp_path / "twice.yaml", "mode: attach\nmode: detach")
    assert "mode is there twice" in refused("serve", "--config", config)


def test_a_broken_file_is_not_quoted(tmp_path: Path) -> None:
    config = written(tmp_path / "dds.yaml", 'log: "postgresql://dds:hunter2@h/d\nmode: attach\n')
    said = refused("serve", "--config", config)
    assert "not well-formed" in said
    assert "line 3" in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("--lease-duration", "2"), "the renew deadline of 3 s is not under the lease duration of 2 s"),
        (("--lease-duration", "nan"), "cannot be written into a Lease"),
        (("--lease-name", "Not A Name"), "'Not A Name' is no name of a lease"),
        (("--namespace", "a/b"), "'a/b' is no name of a namespace"),
        (("--metrics-cert-file", "c.pem"), "the key is missing"),
        (("--metrics-bind-address", "127.0.0.1:8081"), "both to listen on 127.0.0.1:8081"),
        (("--checkpoint-events", "0", "--archive-folder", "a"), "only what lies before a checkpoint can be archived"),
        (("--cluster-name", "Über"), "is no name of a log"),
        (("--log", "mysql://u:hunter2@h/d"), "are not known"),
        (("--writers", "0"), "0 is not in the range"),
    ],
)
def test_values_that_do_not_fit(args: tuple[str, ...], what: str) -> None:
    said = refused("serve", "--print-config", *args)
    assert what in said
    assert "hunter2" not in said


def test_all_flags_of_others_are_known() -> None:
    """Those of the commands that run the part alone, too."""
    for part, more in (("publish", OfSurvey), ("autoscale", OfServers)):
        assert {*names_of(more), f"{part}_policy", f"{part}_mode"} < {name for of, name in ALONE if of == part}


@pytest.mark.parametrize(("part", "name"), ALONE)
def test_a_flag_of_a_part_without_the_part(part: str, name: str) -> None:
    setting = name.replace("_", "-")
    values = {"fabric": "file", "publish-mode": "observe", "autoscale-mode": "observe", "machine-ids": "bmh"}
    value = values.get(setting, "7")
    said = refused("serve", "--print-config", f"--{setting}", value)
    assert said.strip() == f"dds: --{setting}: does nothing without --{part}; give --{part}, too, or leave it out"
    assert shown(env={f"DDS_{setting.upper().replace('-', '_')}": value})[part] == ("false", "default")


def test_a_half_valid_policy(tmp_path: Path) -> None:
    policy = written(tmp_path / "policy.yaml", "mode: attach\nno_removal_seconds: soon\nnoremoval: 3\n")
    said = refused("serve", "--policy", policy)
    assert said.startswith(f"dds: {policy}:2:21: no_removal_seconds: Input should be a valid integer; {policy}:3:1: ")
    assert "noremoval: is no field here: did you mean no_removal_seconds?" in said
    assert "SCAN_INTERVAL='often'" in refused("serve", env={"SCAN_INTERVAL": "often"})


@pytest.mark.parametrize("flavour", ["base", "postgres"])
def test_the_arguments_of_the_manifests_are_taken(flavour: str, tmp_path: Path) -> None:
    folder = REPOSITORY / "deploy" / "kustomize" / flavour
    (config,) = [one for one in _objects(folder / "policy.yaml") if one["kind"] == "ConfigMap"]
    policy = written(tmp_path / "policy.yaml", config["data"]["policy.yaml"])
    (deployment,) = _objects(folder / "deployment.yaml")
    command, *args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert command == "serve"
    found = shown(*(f"--policy={policy}" if arg.startswith("--policy=") else arg for arg in args))
    assert found["mode"] == ("observe", policy)
    assert found["metrics-secure"] == ("true", "flag")


def _objects(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]


# -- the log at start ----------------------------------------------------------------------------------------------


def test_a_first_installation_is_told_what_to_do(tmp_path: Path) -> None:
    said = refused("serve")
    assert str(tmp_path / "state/dds/scaler.sqlite3") in said
    assert "start once with --migrate, which makes the log there, or name another log with --log URL" in said
    assert (tmp_path / "state/dds").stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "state/dds").iterdir()) == []


def test_a_database_without_a_schema_names_the_flag(tmp_path: Path) -> None:
    said = refused("serve", "--log", written(tmp_path / "log.sqlite3", ""))
    assert "it holds no event log yet; start once with --migrate, which makes the log there" in said
    assert "--log" not in said


def test_who_reads_json_reads_the_error_as_json(tmp_path: Path) -> None:
    done = dds("serve", "--log-format", "json")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["level"] == "error"
    assert "start once with --migrate" in json.loads(line)["msg"]


def test_as_a_program() -> None:
    assert program("serve", "--print-config").returncode == 0
    assert "did you mean" in one_line(program("serve", "--lease-nam", "x"), 1).lower()


# -- the policy of a running scaler: followed while its file changes, and outweighed by what was set


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: attach\nno_removal_seconds: 5\n")
    source = policy_source(str(path), None, "default", {"DEVICE_NO_REMOVAL_DURATION": "9"})
    assert (source().mode, source().no_removal_seconds) == ("attach", 9)
    assert source() is source()
    path.write_text("mode: detach\n")
    assert source().mode == "detach"


def test_a_file_that_cannot_be_used_is_said_each_time_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: attach\n")
    source = policy_source(str(path), None, "default", {})
    source()
    for content in ("mode: attack\n", "- a\n", "mode: [\n", None):
        path.unlink() if content is None else path.write_text(content)
        for _ in range(2):
            with pytest.raises(PolicyError, match=str(path)):
                source()
    path.write_text("mode: attach\n")
    assert source().mode == "attach"


def test_what_was_set_outweighs_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("mode: detach\nscan_interval_seconds: 5\n")
    source = policy_source(str(path), "observe", "flag", {"SCAN_INTERVAL": "7", "HOME": "/"})
    assert source() == Policy(scan_interval_seconds=7)
    assert {row.name: row.origin for row in source.rows() if row.origin != "default"} == {
        "mode": "flag",
        "policy.scan_interval_seconds": "environment SCAN_INTERVAL",
    }


def test_a_wrong_variable_is_said_at_once() -> None:
    with pytest.raises(PolicyError, match="SCAN_INTERVAL='-1' is not a whole number"):
        policy_source(None, None, "default", {"SCAN_INTERVAL": "-1"})


def test_without_a_file_it_observes() -> None:
    assert policy_source(None, None, "default", {})() == Policy()


MACHINES = "machines: {kind: inventory, servers: s.yaml, requests: r.yaml}"
GROUPS = "groups: [{name: big, maximum: 2, template: {capacity: {cpu: '1', memory: 1Gi, pods: '10'}}}]"


def test_an_autoscaler_within_shows_its_policy_with_its_groups(tmp_path: Path) -> None:
    machines, policy = written(tmp_path / "m.yaml", MACHINES), written(tmp_path / "p.yaml", GROUPS)
    found = shown("--autoscale", "--machines", machines, "--autoscale-policy", policy)
    assert found["autoscale-mode"] == ("observe", "default")
    assert found["autoscale-policy.groups.0.name"] == ("big", policy)
    assert found["autoscale-policy.groups.0.template.capacity.pods"] == ("10", policy)
    assert found["grpc-bind-address"] == ("127.0.0.1:8086", "default")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "--machines: it is needed"),
        (("--machines", "{machines}", "--grpc-cert-file", "x"), "--grpc-key-file: it is missing"),
        (("--machines", "{machines}", "--grpc-bind-address", "7"), "--grpc-bind-address: '7' is no address"),
        (
            ("--machines", "{machines}", "--autoscale-lease-name", "dds-scaler"),
            "--autoscale-lease-name: scaler, publisher and",
        ),
    ],
)
def test_what_an_autoscaler_within_cannot_use(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    machines = written(tmp_path / "m.yaml", MACHINES)
    given = (machines if arg == "{machines}" else arg for arg in args)
    assert said in refused("serve", "--print-config", "--autoscale", *given)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deep.yaml", "mode: " + "[" * 100_000),
        ("maps.yaml", "mode: " + "{a: " * 3000 + "1" + "}" * 3000),
        ("deep.json", '{"mode": ' + "[" * 100_000 + "]" * 100_000 + "}"),
        ("deep.toml", "mode = " + "[" * 100_000),
    ],
)
def test_a_file_that_is_nested_too_deeply_is_refused_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    for option in ("--policy", "--config"):
        words = "nested more than 16 levels deep, line 1" if name.endswith(".yaml") else "it is nested too deeply"
        assert words in refused("serve", option, str(path), "--print-config")


def test_aliases_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    """Nine lines of ten references each are a billion values."""
    lines = ["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
    path = written(tmp_path / "odd.yaml", "\n".join(lines))
    for option in ("--policy", "--config"):
        assert "aliases (*name) are not allowed, line 2" in refused("serve", option, path, "--print-config")


def test_who_has_no_home_gets_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert ".kube/config" in dds("doctor").output
    assert "no source was named" in refused("status")
    assert "~/.local/state/dds: this user has no home folder" in refused("db", "upgrade")
    assert not Path("~").exists()
