"""Settings are checked before anything is sent."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.fabric import FabricSettings, open_provider
from dds_core.errors import InputError
from tests.adapters.fabric.rig import CLUSTER, TENANT

GOOD = FabricSettings("cm", "https://fabric.example:8443/base", TENANT, CLUSTER, Path("/credentials"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"api": "fm", "cluster": ""},
        {"tenant": TENANT.upper()},
        {"endpoint": "https://[::1]:8443"},
        {"endpoint": "https://10.0.0.1/"},
        {"api": "nec", "endpoint": "http://10.0.0.1:5012", "tenant": "", "cluster": "", "credentials": None},
        {"api": "nec", "endpoint": "https://cdim.example", "tenant": ""},
    ],
)
def test_settings_that_can_be_used(changes: dict[str, Any]) -> None:
    open_provider(replace(GOOD, **changes)).close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"api": "sunfish"}, "fabric api: 'sunfish' is not one of fm, cm, nec, file"),
        ({"endpoint": ""}, "fabric endpoint: is missing; give --fabric-endpoint https://HOST"),
        ({"endpoint": "http://fabric.example"}, "fabric endpoint: is http, on which the password would be sent"),
        ({"endpoint": "https://" + "a" * 1000}, "fabric endpoint: is longer than 1000 characters"),
        ({"endpoint": "fabric.example"}, "fabric endpoint: is not an address"),
        ({"endpoint": "https://"}, "fabric endpoint: is not an address"),
        ({"endpoint": "https://a b"}, "fabric endpoint: is not an address"),
        ({"endpoint": "https://fabric\n.example"}, "fabric endpoint: is not an address"),
        ({"endpoint": "ftp://fabric.example"}, "fabric endpoint: is not an address"),
        ({"endpoint": "https://fabric.example:port"}, "fabric endpoint: is not a URL"),
        ({"endpoint": "https://fabric.example:99999"}, "fabric endpoint: is not a URL"),
        ({"endpoint": "https://[::1"}, "fabric endpoint: is not a URL"),
        ({"endpoint": "https://fabric..example"}, "fabric endpoint: is not a URL"),
        ({"endpoint": f"https://{'a' * 64}.example"}, "fabric endpoint: is not a URL"),
        ({"endpoint": "https://xn--zz--"}, "fabric endpoint: is not a URL"),
        ({"endpoint": "https://user:canary@fabric.example"}, "fabric endpoint: holds more than host, port and path"),
        ({"endpoint": "https://fabric.example?token=canary"}, "fabric endpoint: holds more than"),
        ({"endpoint": "https://fabric.example#canary"}, "fabric endpoint: holds more than"),
        ({"api": "nec", "endpoint": "gopher://x"}, "give --fabric-endpoint https://HOST[:PORT] or http://HOST[:PORT]"),
        ({"api": "nec", "fabric": "a b"}, "fabric: the fabric's id is no DNS label"),
        (
            {"api": "nec", "fabric": "rack-fabric1"},
            "fabric: the fabric's id is no DNS label, or cannot be in a pool's name",
        ),
        ({"tenant": "tenant"}, "fabric tenant: is not a UUID"),
        ({"tenant": ""}, "fabric tenant: is missing; give --tenant-id UUID"),
        ({"cluster": TENANT + "0"}, "fabric cluster: is not a UUID"),
        ({"credentials": None}, "fabric api cm: no folder with credentials is given"),
        ({"api": "file"}, "fabric api file: no inventory is given"),
    ],
)
def test_settings_that_cannot(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        open_provider(replace(GOOD, **changes))
    assert words in str(caught.value)
    assert "canary" not in str(caught.value)


def test_an_inventory_needs_no_http_library(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text("machines: []")
    script = (
        "import sys; from pathlib import Path; from dds_adapters.fabric import *; from dds_adapters.fabric import survey;"
        f"open_provider(FabricSettings('file', inventory=Path({str(tmp_path / 'inventory.yaml')!r}))).machines();"
        "print([name for name in ('httpx', 'httpcore', 'ssl') if name in sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(
        InputError, match=r"the package httpx is not installed; in a checkout of dds: pip install '\.\[serve\]'"
    ):
        open_provider(GOOD)
