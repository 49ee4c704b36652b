"""Every metric of a publisher by name; see `catalogue`, whose metrics of a log it has under names of its own, so that scaler and
publisher can be scraped together. What belongs to the whole program (requests, who leads) is there as it is."""

from __future__ import annotations

from typing import Final

from dds_adapters.live.metrics import catalogue as c
from dds_adapters.live.metrics.catalogue import Named

_CALLS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# -- the fabric -------------------------------------------------------------------------------------------------------

FREE = Named(
    "dds_publisher_free_devices",
    "gauge",
    "Healthy devices that a fabric last said to have free, or in all where it is an inventory.",
    ("fabric", "model"),
)
MACHINES = Named("dds_publisher_machines", "gauge", "Machines by the fabric that reaches them.", ("fabric",))
ANSWER_AGE = Named(
    "dds_publisher_answer_age_seconds",
    "gauge",
    "Seconds since the last good answer about machines, about what a fabric has free of a model (stock), and, the oldest of "
    "them, about machines' limits.",
    ("question", "fabric", "model"),
)
FAILING = Named(
    "dds_publisher_failing_questions",
    "gauge",
    "Questions to the fabric whose last answer was none, by what they are about: machines, stock, limits.",
    ("question",),
)
ROUNDS = Named("dds_publisher_rounds_total", "counter", "Rounds of questions to the fabric that have ended.")
ROUND = Named("dds_publisher_round_seconds", "gauge", "How long the last round took.")
CALLS = Named(
    "dds_publisher_fabric_calls_total",
    "counter",
    "Calls of the fabric's API, each try for itself; im.token is a login. outcome is the HTTP status, or why there is none.",
    ("call", "outcome"),
)
CALL = Named("dds_publisher_fabric_call_duration_seconds", "histogram", "Seconds that a call took.", ("call",), _CALLS)

# -- the pools --------------------------------------------------------------------------------------------------------

POOL_SLICES = Named("dds_publisher_pool_slices", "gauge", "Slices of ours that a pool has.", ("driver", "pool"))
POOL_DEVICES = Named("dds_publisher_pool_devices", "gauge", "Devices that a pool lists.", ("driver", "pool"))
POOL_HELD = Named("dds_publisher_pool_devices_held", "gauge", "Devices of them that claims hold.", ("driver", "pool"))
POOL_TAINTED = Named(
    "dds_publisher_pool_tainted", "gauge", "1 while the scheduler is kept from a pool by taints.", ("driver", "pool")
)
KEPT = Named(
    "dds_publisher_api_keeps",
    "gauge",
    "1 when the API server keeps a field of a slice: binding_conditions (without them nothing is published), device_taints, "
    "shared_devices.",
    ("field",),
)

_OF_A_LOG: Final = (
    c.FACTS, c.DECISIONS, c.REISSUED, c.WRITES, c.REFUSALS, c.ATTEMPTS, c.REJECTED, c.ALERTS, c.BUILD, c.MODE, c.EPOCH, c.SYNCED,
    c.STALE, c.WATCH_AGE, c.QUEUE, c.OUTBOX, c.POSITION, c.BEHIND, c.LAG, c.AVAILABLE, c.COMMIT, c.LATENESS, c.SCRAPE_ERRORS,
    c.UNCOUNTED,
)  # fmt: skip


def named(one: Named) -> Named:
    """A metric of a log as the publisher has it; what belongs to the whole program stays as it is."""
    return one._replace(name=one.name.replace("dds_", "dds_publisher_", 1)) if one in _OF_A_LOG else one


POOL_CATALOGUE: Final[tuple[Named, ...]] = (
    *(one for one in list(globals().values()) if isinstance(one, Named)),
    *map(named, _OF_A_LOG),
)
"""In the order of this file, then those of a log."""
