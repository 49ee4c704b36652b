"""Kubernetes as scaler and publisher see it: what is listened to (`watch`) and what it says (`decode`), what is written (`write`,
`publish`), who leads (`lease`), what stands in the way (`doctor`), and recordings of raw watch streams.

Nothing here decides. What the API server sent is decoded as far as the engine reads it; the rest is never even looked at, so that
no Secret, environment value or opaque device configuration can get into an event.
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
