"""What our scaler keeps in memory once claims and pods have gone: nothing of them, or it would grow with every job."""

from __future__ import annotations

import pytest

from tests.support.ours import running, told_to_us


@pytest.mark.parametrize("name", ["first_attach", "many_devices", "attach_failure", "node_limit", "burst"])
def test_nothing_is_kept_of_what_is_gone(name: str) -> None:
    with running(told_to_us(name)) as run:
        run.lab.run()
        run.lab.run(400)
        scaler, picture = run.ours.scaler, run.ours.scaler.picture
        there = {
            obj["metadata"]["uid"]
            for kind in ("pods", "resourceclaims", "composableresources")
            for obj in run.lab.client("somebody").list(kind)
        }
        assert set(picture.pods) | set(picture.claims) | set(picture.resources) <= there
        assert set(picture.lives) | set(picture.devices) | set(picture.erring) | set(picture.fences) <= there
        for table in (picture.hand_overs, picture.failures, picture.reservations, picture.orders, picture.refusals):
            assert not table
        assert not scaler._wishes and not scaler._questions._naming and len(run.ours.outbox) == 0
        assert all(of in ("fleet", "") or of in there for kind, of in picture.passed if kind != "cooling")
