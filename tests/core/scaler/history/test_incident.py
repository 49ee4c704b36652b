"""What an incident says to do first."""

from __future__ import annotations

import pytest

from dds_core.events import PolicyChanged
from dds_core.scaler.blame import DRIVER, FABRIC, NODE, OPERATOR, ORDER, POOL, RETRY
from dds_core.scaler.history import BOUND, ClaimHistory, History, Span
from dds_core.scaler.history.claims import Attempt
from dds_core.scaler.history.devices import DeviceHistory, DeviceSpan
from dds_core.scaler.history.fold import Alert, Refused
from dds_core.scaler.history.incident import Incident
from dds_core.scaler.history.overview import overview
from dds_core.scaler.history.usage import usage
from dds_core.scaler.history.verdicts import verdict
from dds_core.scaler.history.words import advice
from dds_core.scaler.policy import Policy
from dds_core.timeline import Moment
from tests.core.scaler.history.told import LOGS, beginning_later, new_states, told


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


SECOND = 1_000_000


def claim(name: str, *stages: tuple[str, int, int], attempts: tuple[Attempt, ...] = ()) -> ClaimHistory:
    """A claim with these stages: the name of each, and the seconds at which it began and ended (0: it goes on)."""
    spans = [Span(stage, since * SECOND, until * SECOND, "n0") for stage, since, until in stages]
    return ClaimHistory(name, f"default/{name}", spans[0].since, spans=spans, attempts=list(attempts))


def attempt(since: int, until: int, outcome: str, reason: str = "", cause: str = "") -> Attempt:
    return Attempt(1, 1, since * SECOND, "n0", until * SECOND, outcome=outcome, reason=reason, cause=cause)


def device(uid: str, state: str, since: int, until: int, uuid: str = "", claims: tuple[str, ...] = ()) -> DeviceHistory:
    spans = [DeviceSpan(state, since * SECOND, until * SECOND, claims)]
    named = since * SECOND if uuid else 0
    return DeviceHistory(
        uid, since * SECOND, uid, "r", uuid, "n0", "A100 40G", named=named, gone=until * SECOND, spans=spans
    )


def history_of(claims: list[ClaimHistory], devices: tuple[DeviceHistory, ...] = ()) -> History:
    """From second 0 to 1000."""
    history = History()
    history.first, history.now = SECOND // 1000, 1000 * SECOND
    history.claims = {one.uid: one for one in claims}
    history.devices = {one.uid: one for one in devices}
    return history


def lost_before() -> History:
    """`lost` waited for its deleted node and is bound from second 212 on; `over` waited from 450 to 520; `still` goes on waiting
    from 900 on; all else that went wrong did so by second 200."""
    failed = attempt(0, 180, "failed", "AttachTimeout", "no device within 180 s")
    lost = claim(
        "lost",
        (NODE, 1, 180),
        (RETRY, 180, 187),
        (FABRIC, 187, 212),
        (BOUND, 212, 0),
        attempts=(failed, attempt(187, 212, "bound")),
    )
    over = claim("over", (POOL, 450, 520), (BOUND, 520, 0), attempts=(attempt(520, 520, "bound"),))
    still = claim("still", (FABRIC, 900, 0), attempts=(attempt(900, 0, ""),))
    history = history_of([lost, over, still], (device("vain", "idle", 100, 0, "GPU-1"),))
    history.alerts = [Alert(200 * SECOND, "n0", "NoProgress", "it is slow")]
    history.refused = [Refused(200 * SECOND, "RequestMade", "403 Forbidden")]
    return history


def test_in_a_period_only_what_happened_in_it_counts() -> None:
    history = lost_before()
    whole, late = Incident(history), Incident(history, 500 * SECOND)
    told = whole.sections()
    assert [one.stage for one in whole.waits] == [NODE, FABRIC, POOL, RETRY] and len(whole.vain) == 1
    assert "1 × AttachTimeout" in told["failed"][0] and "403 Forbidden" in told["alerts"][-1]
    assert {one.stage: one.micros // SECOND for one in late.waits} == {FABRIC: 100, POOL: 20}
    assert [one.name for one in late.waiting] == ["default/still", "default/over"] and late.failures == []
    assert (late.vain, late.alerts, late.refused.total()) == ([], [], 0)
    assert [one.why for one in late.todo()] == ["default/still waits 1 min 40 s"]
    assert late.outcomes() == "2 bound, 1 still waiting"
    later = overview(history, 500 * SECOND)
    assert {one.name: one.value for one in later.tiles}["longest wait"] == "1 min 40 s"
    assert [one.stage for one in later.causes] == [FABRIC, POOL] and "AttachTimeout" not in " ".join(later.notes)


def test_of_a_wait_that_began_before_the_period_the_line_says_how_long_it_was_in_all() -> None:
    history = lost_before()
    del history.claims["over"], history.claims["still"]
    [line] = [one for one in Incident(history, 190 * SECOND).sections()["waited"] if "default/lost" in one]
    assert line.startswith("default/lost 22.0 s of 3 min 31 s, bound on n0: fabric 22.0 s; the fabric")
    assert Incident(history, 190 * SECOND).data()["waited_seconds"] == 22


@pytest.mark.parametrize("name", ["node_limit", "burst", "binding_timeout", *LOGS])
def test_a_period_is_told_alike_from_wherever_the_log_is_read(name: str) -> None:
    whole = History().read(told(name))
    for moments in beginning_later(name, new_states()):
        rest = History().read(moments)
        since = (rest.first + rest.now) // 2
        here, there = Incident(rest, since).data(), Incident(whole, since).data()
        assert [here[one] for one in TOLD_ALIKE] == [there[one] for one in TOLD_ALIKE]


TOLD_ALIKE = ("from", "to", "waited_seconds", "waits", "failures", "never_used", "device_seconds", "alerts", "refused")


def test_a_period_in_which_claims_only_run_has_no_wait() -> None:
    history = lost_before()
    del history.claims["still"]
    told = Incident(history, 530 * SECOND)
    assert told.waiting == [] and told.sections()["first"] == [
        "nothing to do: nothing waits, failed or was ordered in vain"
    ]


def test_nobody_is_told_to_delete_a_pod_that_runs() -> None:
    assert not any("delete the pod" in one.do for one in Incident(lost_before()).todo())
    history = history_of([claim("lost", (NODE, 1, 0), attempts=(attempt(1, 0, ""),))])
    assert ["delete the pod" in one.do for one in Incident(history).todo()] == [True]


@pytest.mark.parametrize(
    ("stage", "by", "do", "helps"),
    [
        (FABRIC, "the fabric or the operator", "ask the fabric's team", "a faster fabric"),
        (OPERATOR, "the operator", "see the operator", "an operator that asks"),
        (DRIVER, "the vendor's driver", "see the vendor's driver", "a driver that lists"),
        (NODE, "who deleted the node", "see who deletes nodes", "a node that stays"),
        (ORDER, "dds", "see what keeps dds from ordering", ""),
    ],
)
def test_who_let_an_attempt_time_out_is_whose_time_it_was(stage: str, by: str, do: str, helps: str) -> None:
    """The stages of other attempts are not counted: the second one took longer with the fabric, and was served."""
    ended = attempt(1, 181, "failed", "AttachTimeout", "no device within 180 s")
    one = claim(
        "slow",
        (FABRIC, 1, 20),
        (stage, 20, 181),
        (RETRY, 181, 200),
        (FABRIC, 200, 700),
        (BOUND, 700, 0),
        attempts=(ended, attempt(200, 700, "bound")),
    )
    history = history_of([one])
    found = Incident(history)
    assert [(failure.reason, failure.by) for failure in found.failures] == [("AttachTimeout", by)]
    assert found.todo()[0].do.startswith(do) and found.todo()[0].why == "1 × AttachTimeout"
    told = [text for text in advice(one, history) if text.endswith("(AttachTimeout)")]
    assert [text.startswith(helps) for text in told] == [True] * bool(helps)


def failed_orders() -> History:
    """Two resources in error that never named a device, of which one is still there, and a device that was used."""
    gone, there = (
        attempt(1, 100, "failed", "AttachFailed", "no"),
        attempt(100, 200, "failed", "AttachFailed", "no"),
    )
    one = claim("one", (FABRIC, 1, 100), (RETRY, 100, 101), (FABRIC, 101, 200), (RETRY, 200, 0), attempts=(gone, there))
    used = device("used", "used", 1, 501, "GPU-1", ("other",))
    refused = [device("r1", "error", 1, 300), device("r2", "error", 100, 0)]
    for resource, tried in zip(refused, one.attempts, strict=True):
        resource.meant = ("one", tried.since)
    return history_of([one], (used, *refused))


def test_an_order_that_brought_no_device_takes_no_device_time() -> None:
    history = failed_orders()
    found = Incident(history)
    assert [one.name for one in found.devices] == ["GPU-1"]
    assert +found.spent == {"used": 500 * SECOND} and found.by_model == {"A100 40G": 500 * SECOND}
    assert found.sections()["cost"] == ["8 min 20 s of device-time, 1 device on 1 node: in use 100 %"]
    assert {one.name: one.value for one in overview(history).tiles}["devices"] == "1"
    spent = usage(history, ("model",), str)
    assert {state: micros for state, micros in spent["A100 40G",].items() if micros} == {"used": 500 * SECOND}


def test_an_order_that_brought_no_device_is_told_as_one() -> None:
    found = Incident(failed_orders())
    assert [(one.came, one.verdict.partition(":")[0]) for one in found.vain] == [(False, "never came")] * 2
    assert found.todo()[-1].why == "2 orders that brought none"


def test_a_claim_that_still_waits_was_not_given_up() -> None:
    history = failed_orders()
    last = history.devices["r2"]
    assert verdict(last, history) == "never came: ordered for default/one, which still waits after AttachFailed"
    history.claims["one"].enter("", 900 * SECOND)
    assert verdict(last, history) == "never came: ordered for default/one, which was given up after AttachFailed"
