"""What the documentation tells people to type: every `dds` command exists with its options, every value that helm is given is one
of the chart's, every key of a ConfigMap that is patched is one that is read. Nothing is run here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dds_commands import main
from dds_core import Policy
from dds_core.kit.policy import MODES
from dds_core.publisher.policy import read_publish_policy
from tests.project.deploy.chart import manifests
from tests.project.deploy.watching import RUNBOOK, alerts
from tests.project.docs.pages import ROOT

PAGES = [ROOT / "README.md", *sorted(one for one in (ROOT / "docs").glob("*.md") if one.name != "cli.md")]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_IN_TEXT = re.compile(r"`(dds [a-z][^`…]*)`")
_PLACEHOLDER = re.compile(r"\b(?:FILE|FOLDER|POSITION|SCENARIO|SOURCE|URL)\b")


def typed(page: Path) -> Iterator[list[str]]:
    """The words of each line of a page's shell blocks, without redirections and comments."""
    for kind, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind not in ("", "sh"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line.partition(" >> ")[0], comments=True)
            if words:
                yield words[:-1] if words[-1] == "&" else words


def commands() -> list[tuple[str, str]]:
    """(page, command) for each `dds` command, those in a pod too, and those in running text."""
    found = set()
    for page in PAGES:
        for words in typed(page):
            if words[0] == "dds":
                found.add((page.name, shlex.join(words)))
            elif "--" in words and words[words.index("--") + 1] == "dds":
                found.add((page.name, shlex.join(words[words.index("--") + 1 :])))
        for text in _IN_TEXT.findall(page.read_text(encoding="utf-8")):
            if shlex.split(text)[1] not in ("SOURCE", "would"):
                found.add((page.name, text))
    return sorted(found)


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_exists_with_its_options(page: str, command: str) -> None:
    words = [_PLACEHOLDER.sub("1", word) for word in shlex.split(command)[1:]]
    found: click.Command = main
    while isinstance(found, click.Group) and words:
        inner = found.commands.get(words[0])
        assert inner is not None, f"dds has no command {words[0]!r}"
        found, words = inner, words[1:]
    if isinstance(found, click.Group):
        return
    try:
        found.make_context("dds", words, **main.context_settings)
    except click.MissingParameter:  # in running text a command is named without what it is given
        assert not words, command


def test_there_is_something_to_try() -> None:
    assert len(commands()) > 40


def _set_by_helm() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for words in typed(page):
            if words[0] == "helm":
                yield from ((page.name, one) for flag, one in pairwise(words) if flag == "--set")


@pytest.mark.parametrize(("page", "given"), sorted(set(_set_by_helm())))
def test_helm_is_given_values_of_the_chart(page: str, given: str) -> None:
    path, _, value = given.partition("=")
    values: Any = yaml.safe_load((ROOT / "deploy/chart/dds/values.yaml").read_text(encoding="utf-8"))
    first, _, rest = path.partition(".")
    if first == "policy":
        assert rest in Policy.model_fields
        return
    if path.startswith("publisher.policy."):
        read_publish_policy({path.rpartition(".")[2]: value})
        return
    for key in path.split("."):
        assert key in values, f"the chart has no value {path}"
        values = values[key]
    assert path != "mode" or value in MODES


def test_what_is_patched_is_the_kill_switch() -> None:
    patches = [words for page in PAGES for words in typed(page) if words[0] == "kubectl" and "patch" in words]
    assert patches
    for words in patches:
        assert words[words.index("patch") + 1 :][:2] == ["configmap", "composable-dra-dds"]
        (mode,) = json.loads(words[-1])["data"].items()
        assert mode[0] == "mode" and mode[1] in MODES


def test_each_alert_has_its_place_in_the_operations_guide() -> None:
    text = (ROOT / RUNBOOK).read_text(encoding="utf-8").partition("\n## Alerts\n")[2].partition("\n## ")[0]
    places = re.findall(r'^\| <a id="(\w+)"></a>(\w+) \|', text, flags=re.MULTILINE)
    assert len(places) > 8
    assert [name for _, name in places] == [one.name for one in alerts()]
    assert [f"{RUNBOOK}#{anchor}" for anchor, _ in places] == [one.anchor for one in alerts()]
    severities = [one.severity for one in alerts()]
    assert "Wake somebody** for the first six" in " ".join(text.split())
    assert severities == ["critical"] * 6 + ["warning"] * (len(severities) - 6)


def test_the_policy_of_the_migration_says_what_the_variables_said() -> None:
    from dds_core import from_reference, read_policy

    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/migration.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    variables, values, _ = (yaml.safe_load(block) for block in blocks)
    policy = read_policy({**values["policy"], "mode": values["mode"]})
    assert policy.mode == "observe"
    assert from_reference(variables).items() <= policy.model_dump().items()


def test_the_publisher_of_the_migration_observes_and_will_adopt() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/migration.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    told = yaml.safe_load(blocks[-1])["publisher"]
    policy = read_publish_policy({**told["policy"], "mode": told["mode"]})
    assert (policy.mode, policy.adopt) == ("observe", "reference")
    assert manifests({"publisher": told})
