"""Every metric: its name, kind, labels and help. The instruments and docs/metrics.md are made from this.

Names follow Prometheus: base units (seconds), `_total` for counters.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

Kind = Literal["counter", "gauge", "histogram"]


class Named(NamedTuple):
    """One metric. `buckets` are the upper bounds of a histogram, in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_WAITS: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)

# -- claims -----------------------------------------------------------------------------------------------------------

CLAIMS = Named("dds_claims", "gauge", "Claims by state.", ("state",))
UNALLOCATED = Named(
    "dds_unallocated_claims",
    "gauge",
    "Claims of waiting pods without an allocation, and pods that wait for an extended resource without a claim, by the models "
    "that may serve them and by what they wait for: placed, no-class, no-device, selector, too-few, in-use, device-taint, "
    "counters, constraint, capacity, together, cool-down, coexistence, limit, node, untried (a device is free), not-computed. "
    "Counted every 15 s.",
    ("model", "reason"),
)
STAGE = Named(
    "dds_claim_stage_seconds",
    "histogram",
    "Seconds of each stage of a claim that waits for a pool device. order: from the allocation until the request; attach: until "
    "the device is ready; signal: until the scheduler is signalled; bind: until the pod is bound; total: from the cycle's first "
    "pool allocation until the pod is bound.",
    ("stage",),
    _WAITS,
)
BOUND = Named(
    "dds_devices_bound_total",
    "counter",
    "Fabric devices that claims had when their pods were bound.",
    ("model",),
)
TRANSITIONS = Named("dds_transitions_total", "counter", "Transitions of claims and devices.", ("life", "trigger"))

# -- devices ----------------------------------------------------------------------------------------------------------

DEVICES = Named("dds_devices", "gauge", "Fabric devices by state.", ("state", "model", "node"))
IDLE = Named(
    "dds_device_idle_seconds_total",
    "counter",
    "Device-seconds on a node without a claim, marked devices included.",
    ("model", "node"),
)
SPENDING = Named(
    "dds_device_seconds_total",
    "counter",
    "Device-seconds by state: used, idle, attaching, detaching, or in error without a user; since the log began, or its first "
    "checkpoint of an older version.",
    ("state", "model"),
)
ATTACHES = Named("dds_device_attaches_total", "counter", "Devices attached to a node.", ("model",))
ATTACH = Named(
    "dds_device_attach_seconds",
    "histogram",
    "Seconds from the ComposableResource until its device is on the node.",
    ("model",),
    _WAITS,
)

# -- the hand-over ----------------------------------------------------------------------------------------------------

LANDINGS = Named(
    "dds_hand_over_landings_total",
    "counter",
    "Allocations after a hand-over: here (devices of the node), pool (on the node, from the pool again) or elsewhere. steering "
    '"none": no hand-over of dds preceded it.',
    ("steering", "landing"),
)

# -- what is decided, what comes of it --------------------------------------------------------------------------------

DECISIONS = Named("dds_decisions_total", "counter", "Decisions logged, by their mode.", ("type", "mode"))
REFUSALS = Named("dds_write_refusals_total", "counter", "Writes refused for good, by HTTP status.", ("action", "code"))
ATTEMPTS = Named(
    "dds_write_attempts_total",
    "counter",
    "Outcomes of write attempts, transient failures (later) included; action is empty for writes without a decision, such as "
    "Events.",
    ("action", "outcome"),
)
REJECTED = Named("dds_rejected_total", "counter", "Objects or fields that are not as expected.", ("resource", "reason"))
ALERTS = Named("dds_alerts_total", "counter", "Alerts for a person.", ("reason",))
BROKEN = Named(
    "dds_invariants_broken_total",
    "counter",
    "Invariants that did not hold, or decisions refused because they would break one: a fault of dds.",
    ("invariant",),
)
COOLING = Named("dds_cooling_cells", "gauge", "Models on nodes that cool down after a failure.")

# -- how the scaler fares ---------------------------------------------------------------------------------------------

BUILD = Named(
    "dds_build_info", "gauge", "Always 1: version of the code, fingerprint of the rules.", ("version", "fingerprint")
)
LEADER = Named("leader_election_master_status", "gauge", "1 while this process leads; name of the Lease.", ("name",))
POLICY_VALID = Named(
    "dds_policy_valid", "gauge", "1 while the policy's file is valid; at 0 the last valid policy stays in force."
)
SYNCED = Named("dds_synced", "gauge", "1 once all resources were listed and decisions are taken.")
WATCH_AGE = Named(
    "dds_watch_age_seconds",
    "gauge",
    "Seconds since the API server last sent something about a resource.",
    ("resource",),
)
LAG = Named("dds_log_lag_seconds", "gauge", "Age of the oldest fact not in the log yet, or 0.")
AVAILABLE = Named("dds_log_available", "gauge", "0 while the log cannot be written.")
COMMIT = Named(
    "dds_commit_delay_seconds", "histogram", "Seconds from a fact's arrival until it is in the log.", (), _QUICK
)
REQUESTS = Named(
    "rest_client_requests_total", "counter", "Requests to the API server; code 0: no answer.", ("method", "code")
)
REQUEST = Named(
    "rest_client_request_duration_seconds", "histogram", "Seconds of requests to the API server.", ("verb",), _QUICK
)
SCRAPE_ERRORS = Named(
    "dds_scrape_errors_total", "counter", "Gauges that could not be read; others are not affected.", ("metric",)
)
UNCOUNTED = Named(
    "dds_uncounted_groups_total",
    "counter",
    "Logged groups that could not be counted: a fault of dds.",
)

CATALOGUE: Final[tuple[Named, ...]] = tuple(one for one in list(globals().values()) if isinstance(one, Named))
"""The scaler's metrics and those of the program, in the order of this file: all that are defined above."""


_CALLS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# -- the fabric -------------------------------------------------------------------------------------------------------

FREE = Named(
    "dds_publisher_free_devices",
    "gauge",
    "Healthy devices that a fabric last reported free; of an inventory, all.",
    ("fabric", "model"),
)
ANSWER_AGE = Named(
    "dds_publisher_answer_age_seconds",
    "gauge",
    "Seconds since the last good answer: machines, stock (free devices of a model), limits (the oldest).",
    ("question", "fabric", "model"),
)
FAILING = Named(
    "dds_publisher_failing_questions",
    "gauge",
    "Unanswered questions to the fabric: machines, stock, limits; entries: 1 while entries of answers cannot be read.",
    ("question",),
)
CALLS = Named(
    "dds_publisher_fabric_calls_total",
    "counter",
    "Tries of calls of the fabric's API; im.token is a login. outcome is the HTTP status, or the reason for none.",
    ("call", "outcome"),
)
CALL = Named("dds_publisher_fabric_call_duration_seconds", "histogram", "Seconds of a call.", ("call",), _CALLS)

# -- the pools --------------------------------------------------------------------------------------------------------

POOL_HELD = Named("dds_publisher_pool_devices_held", "gauge", "Listed devices that claims hold.", ("driver", "pool"))
POOL_TAINTED = Named(
    "dds_publisher_pool_tainted", "gauge", "1 while taints keep the scheduler from a pool.", ("driver", "pool")
)
KEPT = Named(
    "dds_publisher_api_keeps",
    "gauge",
    "1 if the API server keeps a field of slices: binding_conditions (else nothing is published), device_taints, shared_devices.",
    ("field",),
)

_OF_A_LOG: Final = (
    DECISIONS, REFUSALS, ATTEMPTS, REJECTED, ALERTS, BROKEN, BUILD, POLICY_VALID, SYNCED, WATCH_AGE, LAG, AVAILABLE, COMMIT,
    SCRAPE_ERRORS, UNCOUNTED,
)  # fmt: skip


def named_for(component: str) -> Callable[[Named], Named]:
    """A function that puts the component into the name of a metric, so that several components of one program can be scraped
    together. Metrics of the whole program (requests, leadership) and of the component alone keep their names."""
    own = f"dds_{component}_"
    return lambda one: one._replace(name=one.name.replace("dds_", own, 1)) if one in _OF_A_LOG else one


POOL_CATALOGUE: Final[tuple[Named, ...]] = (
    *(one for one in list(globals().values()) if isinstance(one, Named) and one not in CATALOGUE),
    *map(named_for("publisher"), _OF_A_LOG),
)
"""The publisher's metrics in the order of this file, then those of its log."""

# -- the autoscaler ---------------------------------------------------------------------------------------------------

SERVERS_AGE = Named(
    "dds_autoscaler_servers_answer_age_seconds", "gauge", "Seconds since the provider's last complete answer."
)
RPCS = Named(
    "dds_autoscaler_rpcs_total",
    "counter",
    "Calls of Cluster Autoscaler by gRPC code.",
    ("method", "code"),
)

GROUP_CATALOGUE: Final[tuple[Named, ...]] = (
    *(one for one in list(globals().values()) if isinstance(one, Named) and one not in (*CATALOGUE, *POOL_CATALOGUE)),
    *map(named_for("autoscaler"), _OF_A_LOG),
)
"""The autoscaler's metrics in the order of this file, then those of its log."""


# -- instruments ---------------------------------------------------------------------------------------------------------

_I = TypeVar("_I", bound=MetricWrapperBase)


class Labelled(Generic[_I]):
    """Caches an instrument's children by label values. The client's own look-up takes a lock, which slows the deciding thread."""

    __slots__ = ("_children", "_instrument")

    def __init__(self, instrument: _I) -> None:
        self._instrument = instrument
        self._children: dict[tuple[Hashable, ...], _I] = {}

    def __getitem__(self, values: tuple[str, ...]) -> _I:
        child = self._children.get(values)
        if child is None:
            child = self._children[values] = self._instrument.labels(*values)
        return child


def counter(named: Named, registry: CollectorRegistry) -> Counter:
    return Counter(named.name, named.help, named.labels, registry=registry)


def counters(named: Named, registry: CollectorRegistry) -> Labelled[Counter]:
    return Labelled(counter(named, registry))


def gauge(named: Named, registry: CollectorRegistry) -> Gauge:
    return Gauge(named.name, named.help, named.labels, registry=registry)


def histogram(named: Named, registry: CollectorRegistry) -> Histogram:
    return Histogram(named.name, named.help, named.labels, buckets=named.buckets, registry=registry)


def histograms(named: Named, registry: CollectorRegistry) -> Labelled[Histogram]:
    return Labelled(histogram(named, registry))
