"""What an incident says to do first."""

from __future__ import annotations

from dds_core.events import PolicyChanged
from dds_core.scaler.history import History
from dds_core.scaler.history.incident import Incident
from dds_core.scaler.policy import Policy
from dds_core.timeline import Moment
from tests.core.scaler.history.told import told


def test_nobody_is_told_to_let_dds_decide_once_it_does() -> None:
    history = History()
    for moment in told("binding_timeout"):
        history.take(moment)
        if any(one.name == "default/bt" and one.spans and not one.waits for one in history.claims.values()):
            break
    assert [one.do[:14] for one in Incident(history, 0).todo()] == ["let dds decide"]
    change = PolicyChanged(policy=Policy(mode="attach").model_dump(mode="json"))
    history.take(Moment(moment.position + 1, moment.at, change, []))
    assert Incident(history, 0).todo() == []
