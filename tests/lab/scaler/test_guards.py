"""What a scaler in the lab knows, before it decides anything, of the API server and whether devices can be guarded there."""

from __future__ import annotations

import pytest

from dds_core.events import Capabilities
from dds_core.replay import event_of
from dds_core.scaler.component import SCALER
from tests.support import guarding
from tests.support.ours import running, told_to_us


@pytest.mark.parametrize("installed", [True, False])
def test_it_is_known_before_the_first_decision(installed: bool) -> None:
    with running(told_to_us("empty"), guarded=installed) as run:
        run.lab.run(until=run.lab.time.now() + 10_000_000)
    rows = {row.type: row for row in run.log.read()}
    told = event_of(rows["Capabilities"], SCALER)
    assert isinstance(told, Capabilities)
    lacking = "validatingadmissionpolicies dds-guard is not there: install it as the manifests of dds have it"
    known = (guarding.NAMESPACE, "") if installed else ("", lacking)
    assert (told.version, told.guards, told.unguarded) == ("1.36.2", *known)
    assert [row.type for row in run.log.read()].count("Capabilities") == 1
    assert rows["Capabilities"].position < rows["Synced"].position
