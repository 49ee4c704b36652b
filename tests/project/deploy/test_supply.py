"""Nothing is installed, here or in the image, but what the lock names, by the hashes of its files; the licences are listed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import helm_python
import pytest
import yaml
from packaging.utils import canonicalize_name

from tests.project.deploy.locked import DEVELOPMENT, IMAGE, licence, locked, needs
from tests.project.deploy.made import LICENCES, ROOT, licences

OURS = {"dds-core", "dds-lab"}


def test_every_line_of_the_lock_has_the_hashes_of_its_files() -> None:
    assert len(locked()) == len(locked(IMAGE)) + len(locked(DEVELOPMENT)) > 100
    with pytest.raises(ValueError, match="has no hashes"):
        locked("click==8.5.1\n")


def test_nothing_is_installed_that_the_lock_does_not_name() -> None:
    """But ourselves, and the pip of the environment."""
    installed = {canonicalize_name(one.name): one.version for one in distributions()}
    assert installed.keys() - locked().keys() <= OURS | {"pip", "wheel"}
    named = {name: version for name, (version, _) in locked().items()}
    assert {name: version for name, version in installed.items() if named.get(name, version) != version} == {}


def test_the_image_has_what_its_extras_and_its_build_need_and_nothing_else() -> None:
    build = {"hatchling", "editables"}
    assert needs("dds-core", ("autoscaler", "postgres")) | build | needs("hatchling") == locked(IMAGE).keys()


def test_the_licences_are_those_of_the_metadata_and_everything_has_one() -> None:
    assert [name for name in locked(IMAGE) if not licence(name)] == []
    text = (ROOT / LICENCES).read_text(encoding="utf-8")
    assert text == licences(), "run: python -m tests.project.deploy.generate"
    assert not [one for one in locked(IMAGE) if licence(one).startswith(("GPL", "AGPL"))], (
        "none that asks for our source"
    )


def test_the_chart_is_packaged_for_the_registry_that_is_named(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "deploy" / "package.py"), "registry.example/team", "0.2.0"]
    for more, home in ((), None), (("--source", "https://git.example/dds"), "https://git.example/dds"):
        done = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True, check=True)
        with helm_python.Chart.load(tmp_path / done.stdout.strip()) as chart:
            assert (chart.metadata["version"], chart.metadata["appVersion"]) == ("0.2.0", "0.2.0")
            assert chart.metadata.get("home") == home
            (deployment,) = [
                one
                for path, text in chart.render({}, name="dds", namespace="dds").items()
                if path.endswith("/deployment.yaml")
                for one in yaml.safe_load_all(text)
            ]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "registry.example/team/dds:0.2.0"


def _make(target: str, *values: str) -> subprocess.CompletedProcess[str]:
    """What make would run, where no docker looks up a digest."""
    command = ["make", "--dry-run", target, *values]
    return subprocess.run(command, cwd=ROOT, env={"PATH": os.defpath}, capture_output=True, text=True, check=False)


def test_an_image_is_built_on_a_digest_with_sbom_and_provenance() -> None:
    base = "python:3@sha256:" + "0" * 64
    told = _make("image", "REGISTRY=registry.example/team", f"PYTHON_IMAGE={base}").stdout
    built = told[told.index("docker buildx build") :].replace("\\\n", "").split()
    assert {"--sbom=true", "--provenance=mode=max", f"PYTHON={base}"} <= set(built)
    assert built[-2:] == ["registry.example/team/dds:0.1.0", "."]
    for values, words in (((), "name a registry"), (("REGISTRY=r.example", "PYTHON_IMAGE=python:3@"), "PYTHON_IMAGE=")):
        command = ["make", "image", *values]
        done = subprocess.run(command, cwd=ROOT, env={"PATH": os.defpath}, capture_output=True, text=True, check=False)
        assert done.returncode and words in done.stderr
