"""Several labs in one process, each on threads of its own, make their kinds at the same time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from dds_lab.api import packed
from dds_lab.api.decoding import decoded

KINDS = [("", "v1", "Node"), ("", "v1", "Pod"), ("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy")]
THREADS = 8


def test_no_thread_sees_a_kind_whose_fields_are_not_all_known() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            packed._built.cache_clear()
            together = Barrier(THREADS)

            def unknown(number: int, together: Barrier = together) -> list[str]:
                together.wait()
                group, version, kind = KINDS[number % len(KINDS)]
                body = {"kind": kind, "metadata": {"name": "one", "labels": {}}, "spec": {}}
                return decoded(packed.kind_node(group, version, kind), body)[1]

            with ThreadPoolExecutor(THREADS) as pool:
                assert list(pool.map(unknown, range(THREADS))) == [[]] * THREADS
    finally:
        sys.setswitchinterval(before)
