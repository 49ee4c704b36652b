"""What a live scaler is told: addresses as people write them, and values that do not fit each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dds_adapters.runtime.live_settings import Listen, LiveSettings
from dds_core.errors import InputError


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("127.0.0.1:8081", "127.0.0.1", 8081, "127.0.0.1:8081"),
        (":8081", "", 8081, ":8081"),
        ("[::1]:0", "::1", 0, "[::1]:0"),
        ("localhost:65535", "localhost", 65535, "localhost:65535"),
    ],
)
def test_addresses(text: str, host: str, port: int, shown: str) -> None:
    found = Listen.read(text)
    assert (found.host, found.port) == (host, port)
    assert str(found) == shown
    assert Listen.read(str(found)) == found


@pytest.mark.parametrize("text", ["", "8081", "h:", "h:x", "h:-1", "h:65536", "::1:80", "[h]:80", "h:８０"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(InputError, match="is no address to listen on; write HOST:PORT"):
        Listen.read(text)


def test_the_defaults_listen_on_loopback_alone() -> None:
    settings = LiveSettings("me")
    assert settings.health == Listen("127.0.0.1", 8081)
    assert settings.metrics == Listen("127.0.0.1", 8080)
    assert not settings.leader_elect


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"identity": ""}, "identity"),
        ({"config_namespace": "a.b"}, "'a.b' is no name of a namespace"),
        ({"lease_namespace": "-a"}, "'-a' is no name of a namespace"),
        ({"lease_name": "A"}, "'A' is no name of a lease"),
        ({"lease_name": "a" * 254}, "is no name of a lease"),
        ({"metrics_cert": Path("c")}, "the key is missing"),
        ({"metrics_key": Path("k")}, "the certificate is missing"),
        ({"metrics": Listen("127.0.0.1", 8081)}, "both to listen on 127.0.0.1:8081"),
        ({"checkpoint_events": -1}, "below 0"),
        ({"checkpoint_events": 0, "archive_folder": Path("a")}, "only what lies before a checkpoint"),
        ({"writers": 0}, "without a thread"),
    ],
)
def test_values_that_do_not_fit(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError, match=what):
        LiveSettings(**({"identity": "me"} | changes))


def test_values_that_do() -> None:
    free = Listen("127.0.0.1", 0)
    LiveSettings("me", health=free, metrics=free)
    LiveSettings("me", health=None, metrics=None)
    LiveSettings("me", lease_name="a.b-c", checkpoint_events=0)
    LiveSettings("me", metrics_cert=Path("c"), metrics_key=Path("k"), metrics_secure=True)
