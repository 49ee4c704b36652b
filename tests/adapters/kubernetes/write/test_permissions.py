"""Every kind of write with exactly the scaler's role, and not one request more than it allows."""

from __future__ import annotations

from dds_adapters.kubernetes.write.devices import MarkVictim
from dds_adapters.kubernetes.write.tasks import Declined
from tests.support.roles import EVERYTHING, role
from tests.support.stage import GPU, Stage, uid_of
from tests.support.written_life import live_through


def test_every_kind_of_write_is_allowed() -> None:
    stage = Stage()
    dds = stage.grant("dds", role("cluster"))
    live_through(stage, lambda work: work.carry_out(dds, stage.versions))


def test_a_power_that_is_off_declines_its_writes_in_one_line() -> None:
    stage = Stage()
    dds = stage.grant("dds", role("cluster", EVERYTHING - {"taint_rules"}))
    uid = uid_of(stage.resource("a"))
    result = MarkVictim("a", uid, "GPU-a", (GPU, "node0", "gpu-0"), True, "cohdi.io/detach").carry_out(
        dds, stage.versions
    )
    assert isinstance(result, Declined) and (result.code, result.reason) == (403, "Forbidden")
    assert "devicetaintrules" in result.text and "\n" not in result.text
    assert stage.admin.list("devicetaintrules") == []
