"""The Kubernetes side of all components: lists and watches (`watch`), objects to facts (`decode`), writes (`write`, `publish`),
leader election (`lease`), checks of an installation (`doctor`), and recordings of watch streams.

Nothing here decides. An object is decoded only as far as the engine reads it, so that no Secret, environment value or opaque
device configuration can get into an event.
"""

from dds_adapters.kubernetes.decode.decoding import Fault
from dds_adapters.kubernetes.decode.translate import (
    RESOURCES,
    KnownObjects,
    NamedObjects,
    Translator,
    UnknownResource,
    UnknownWatchType,
    WatchFailed,
)
from dds_adapters.kubernetes.recording import EVALUATOR, NotARecording, RecordedEvent, read_recording

__all__ = [
    "EVALUATOR",
    "RESOURCES",
    "Fault",
    "KnownObjects",
    "NamedObjects",
    "NotARecording",
    "RecordedEvent",
    "Translator",
    "UnknownResource",
    "UnknownWatchType",
    "WatchFailed",
    "read_recording",
]
