"""How each scenario ends as it should with our scaler: who runs, who is failed with which words, what is attached how often."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.ours import Running

REFUSED = "AttachFailed: failed to process FM scaleup request. FM returned code: 'E02XXXX', error message:"
"""The operator's text, before the fabric's words."""


@dataclass(frozen=True)
class ExpectedEnd:
    """`ran`: pods that ran, or how many. `attaches`: (least, most) devices that were attached. `failed`: claims that are failed,
    with words that must be among those told. `stays`: devices that are still attached after the scenario and three minutes.
    `rows`: rows of the log for a claim and an hour at most. `found`: what the judge may find, with the reason beside it."""

    ran: frozenset[str] | int = frozenset()
    attaches: tuple[int, int] = (0, 0)
    failed: dict[str, str] = field(default_factory=dict)
    stays: int = 0
    rows: float = 4000.0
    found: frozenset[str] = frozenset()


def end(*ran: str, attaches: tuple[int, int], **more: Any) -> ExpectedEnd:
    return ExpectedEnd(frozenset(ran), attaches, **more)


ENDS = {
    "attach_failure": ExpectedEnd(failed={"unlucky": f"{REFUSED} 'CDI manager: machine update failed, E02XXXX'"}),
    "better_choice": end("holder", "fa", attaches=(1, 1)),
    "binding_timeout": end("bt", attaches=(1, 1)),
    "burst": ExpectedEnd(40, (18, 30)),
    "coexistence": end("on-a100", "on-h100", attaches=(2, 2)),
    "cordoned": end("cd", attaches=(1, 2)),
    # the operator attaches nothing to a node without an NVIDIA driver
    "cxl_memory": ExpectedEnd(failed={"memory": "AttachFailed: no nvidia driver found on node node0000"}),
    "empty": ExpectedEnd(),
    "exchange_crash": end("first", attaches=(1, 1)),
    "extended_resource": end("er", attaches=(1, 1)),
    # an operator that restarts, and an answer that is lost, bring a second device each: that is the operator's
    "faults": ExpectedEnd(9, (9, 14), failed={}, stays=1, found=frozenset({"beyond need"})),
    "first_attach": end("train-1", attaches=(1, 1)),
    "first_available": end("fa", attaches=(1, 1)),
    "managed": ExpectedEnd(),
    "many_devices": end("big", "small", "reuse", attaches=(4, 4)),
    "match_attribute": end("pair", attaches=(2, 2)),
    "node_limit": ExpectedEnd(2, (2, 2)),
    "node_lost": end("victim", attaches=(1, 1), stays=1),
    "partitioned": end("whole", "part", "second", attaches=(2, 2)),
    "playground": ExpectedEnd(),
    "pool_exhausted": end("first", "second", attaches=(1, 1)),
    "preempted": end("low", "high", attaches=(1, 2)),
    "ready_mode": end("r1", attaches=(1, 1)),
    "refused_local": end("elsewhere", attaches=(1, 1)),
    # a scheduler that lists anew across an exchange gives the device to the next pod as well, and only a person can help
    "relist_gap": end("first", "second", attaches=(1, 1), found=frozenset({"given twice"})),
    "repartitioned": end("whole", "part", attaches=(2, 2)),
    "rival": end("first", "rival", attaches=(2, 2)),
    "scheduler_restart": end("sr", attaches=(1, 2)),
    "shared_gap": end("first", attaches=(1, 1)),
    "shares": ExpectedEnd(4),  # chance decides what fits beside what; none of it is ours
    "two_claims": end("tc", attaches=(2, 2)),
    "two_requests": end("mixed", attaches=(2, 2)),
    # the sick device has no name by which it could be held, and is left for a person
    "unhealthy": end("first", "second", attaches=(2, 2), stays=1),
    "withdrawn": ExpectedEnd(attaches=(1, 1)),
}


def held_to(run: Running, expected: ExpectedEnd) -> None:
    """What every run is held to, beside the judge."""
    assert run.lab.steps.failures == []
    assert set(run.judge.rules) <= expected.found, run.judge.findings
    ran = frozenset(run.outcomes.ran)
    assert ran == expected.ran if isinstance(expected.ran, frozenset) else len(ran) >= expected.ran
    least, most = expected.attaches
    assert least <= run.lab.ledger.count("attach", "done") <= most
    for claim, words in expected.failed.items():
        assert words in run.outcomes.failed[claim]
    assert len(run.attached()) == expected.stays, run.attached()
    if run.tally.claims:
        assert run.events_per_claim_hour() <= expected.rows
    run.sound()


def survived(run: Running, expected: ExpectedEnd) -> None:
    """What must hold whatever happened on the way to our own process: the same pods run, nothing stays attached that should not,
    and the judge has seen nothing. How often a pod waited, and where, may differ."""
    assert set(run.judge.rules) <= expected.found, run.judge.findings
    ran = frozenset(run.outcomes.ran)
    assert ran == expected.ran if isinstance(expected.ran, frozenset) else len(ran) >= expected.ran, ran
    assert len(run.attached()) == expected.stays, run.attached()
    run.sound()
