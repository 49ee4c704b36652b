"""An API server that is gone for a while, and a host whose clock is wrong: our scaler neither ends nor loses anything nor does
anything twice, and a server that comes back is not overrun."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from dds_adapters.runtime.process import SECOND, LiveClock, Process
from dds_lab.shipped import find
from tests.support.live_lab import LiveLab, OurProcess, eventually
from tests.support.live_story import Story, unhurried
from tests.support.wire import away

SPEED = 4.0
CEILING = 10


SOAK = [pytest.mark.soak, pytest.mark.timeout(1800)]


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("while it is handed over", 12),
        pytest.param("while a device is attached", 600, marks=SOAK),
        pytest.param("while it is handed over", 600, marks=SOAK),
    ],
)
def test_an_api_server_that_is_away(when: str, seconds: int, tmp_path: Path) -> None:
    """What happens in the cluster meanwhile is found when it is back."""
    story = Story(unhurried(find("first_attach")), tmp_path, speed=SPEED)
    back = 0.0

    def goes_away(lab: LiveLab, ours: OurProcess) -> None:
        nonlocal back
        eventually(lambda: lab.call(lambda lab: lab.client("test").list("composabilityrequests")), pause=0.01)
        if when == "while it is handed over":
            eventually(lambda: any(row.type == "DevicesGiven" for row in story.log.read()), pause=0.01)
        with away(lab, story.traffic):
            time.sleep(seconds)
            assert ours.alive
        back = time.monotonic()

    story.play(within=120.0, meanwhile=goes_away)
    assert story.ran == {"train-1"}
    assert story.findings == []
    assert story.attaches <= 2
    assert any("does not answer" in line or "broke off" in line for line in story.troubles)
    most, resource = story.traffic.most(since=back)
    assert most <= 3 * CEILING, f"{resource}: {most} requests within ten seconds after it came back"


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_host_whose_clock_is_wrong(minutes: int, tmp_path: Path) -> None:
    """It goes by the API server's: no deadline comes early or late, and facts do not lie in the future or past."""
    began = time.time_ns() // 1000

    def wrong(process: Process[Any]) -> None:
        process.clock = LiveClock(wall=lambda: time.time_ns() // 1000 + minutes * 60 * SECOND)
        process.arrivals._now = process.clock.now

    story = Story(unhurried(find("first_attach")), tmp_path, speed=1.0, prepare=wrong)
    story.play(within=120.0)
    assert story.ran == {"train-1"}
    assert story.findings == []
    (told,) = (line for line in story.troubles if "this host's clock is" in line)
    assert abs(int(told.partition("clock is ")[2].split()[0]) - minutes * 60) <= 3
    instants = [row.occurred_at for row in story.log.read(types={"ClaimMoved"})]
    assert all(began - 3 * SECOND <= at <= time.time_ns() // 1000 + 3 * SECOND for at in instants)
