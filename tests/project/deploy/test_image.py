"""The Containerfile names what is there: its sources, its extras, its user. No image is built here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.project.deploy.chart import manifests, of_kind

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
LINES = [line.split(maxsplit=1) for line in TEXT.splitlines() if line.strip() and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _of(instruction: str) -> list[str]:
    return [rest for name, rest in LINES if name == instruction]


def test_everything_that_is_copied_is_there_and_let_in() -> None:
    sources = [name for rest in _of("COPY") if not rest.startswith("--from") for name in rest.split()[:-1]]
    let_in = re.findall(r"^!(\S+)$", (ROOT / ".containerignore").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(sources) == sorted(let_in)
    assert all((ROOT / name).exists() for name in sources)
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {name.partition("/")[0] for name in packages} <= set(sources)


def test_both_stages_are_of_one_pinned_python_of_no_particular_registry() -> None:
    argument, source = _of("ARG")
    name, _, image = argument.partition("=")
    assert (name, source) == ("PYTHON", 'SOURCE=""')
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", image), "its digest is given by whoever builds"
    assert [rest.split()[0] for rest in _of("FROM")] == ["${PYTHON}"] * 2


def test_it_installs_extras_that_there_are_and_nothing_for_development() -> None:
    (installed,) = re.findall(r"'\.\[([a-z,]+)\]'", TEXT)
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(installed.split(",")) <= set(extras) - {"all"}
    everything = {
        extra
        for one in installed.split(",")
        for extra in (one, *re.findall(r"dds-core\[([a-z,]+)\]", *extras[one][:1]))
    }
    assert everything == {"autoscaler", "postgres", "serve"}, "what the commands of the Deployments need"
    build = {re.split(r"[<>=!]", name)[0] for name in PROJECT["build-system"]["requires"]}
    assert all(f" {name} " in TEXT for name in build)
    commands = [one for one in TEXT.replace("\n", " && ").split(" && ") if "pip install" in one]
    assert ["--require-hashes" in one for one in commands] == [True, False]
    assert "--no-index" in commands[1], "what is not installed by its hash is not installed"


def test_whoever_runs_it_may_enter_its_folders() -> None:
    """OpenShift runs it as a user that the image does not know, of group 0."""
    assert "install -d -o 65532 -g 0 -m 0770 /var/lib/dds" in TEXT


def test_its_user_and_folder_are_those_of_the_deployment() -> None:
    (deployment,) = of_kind(manifests(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    context = pod["securityContext"]
    assert _of("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    (log,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "log"]
    assert _of("VOLUME") == _of("WORKDIR")[1:] == [log["mountPath"]]
    assert "XDG_STATE_HOME=/var/lib " in TEXT.replace("\n", " ")
    assert (_of("ENTRYPOINT"), _of("CMD")) == (['["dds"]'], ['["serve"]'])
