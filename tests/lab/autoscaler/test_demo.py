"""`make demo-nodes` as it stands."""

from __future__ import annotations

import subprocess
import sys

from tests.support.commands import REPOSITORY

TOLD = (
    "pod wants-a-gpu comes",
    "its claim is Bound",
    "pod wants-room comes",
    "Cluster Autoscaler asks for 1 server more",
    "has registered, with all labels",
    "its device went back",
    "asks to remove it",
    "its Node is deleted",
)


def test_a_device_comes_then_a_server_and_first_the_device_goes_back() -> None:
    said = subprocess.run(
        [sys.executable, str(REPOSITORY / "examples" / "demo" / "nodes.py")], capture_output=True, text=True, check=True
    ).stdout
    places = [said.index(words) for words in TOLD]
    assert places == sorted(places), said
    assert said.count("every decision is the one that the rules make") == 2
