"""`dds serve` as it is, but for what a measurement has to change in it.

`python -m benchmarks.serve_ours QUEUE ARGUMENT...` is `dds serve ARGUMENT...`. With `whole` as QUEUE it takes in every state of
an object that a watch tells, with `newest` what it does in use: only the newest that it has not seen. Where DDS_PROFILE names a
file, the profile of the thread that decides goes there.
"""

from __future__ import annotations

import cProfile
import os
import sys
from contextlib import suppress
from itertools import count

from dds_adapters.kubernetes.watch.delta_queue import DeltaQueue
from dds_adapters.runtime import process
from dds_commands import main

_number = count()


class Whole(DeltaQueue):
    """A queue that keeps each state of each object, so that there are as many facts as there were changes."""

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        super().put(resource, f"{uid}/{next(_number)}", type, raw)


def _serve(queue: str, arguments: list[str]) -> None:
    if queue == "whole":
        setattr(process, DeltaQueue.__name__, Whole)
    sys.argv = ["dds", "serve", *arguments]
    main()


if __name__ == "__main__":
    _profile = os.environ.get("DDS_PROFILE")
    if _profile:
        with cProfile.Profile() as _profiler, suppress(SystemExit):
            _serve(sys.argv[1], sys.argv[2:])
        _profiler.dump_stats(_profile)
    else:
        _serve(sys.argv[1], sys.argv[2:])
