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
            packed._RELEASES.clear()
            together = Barrier(THREADS)

            def unknown(number: int, together: Barrier = together) -> tuple[list[str], int]:
                together.wait()
                group, version, kind = KINDS[number % len(KINDS)]
                node = packed.kind_node(group, version, kind)
                body = {"kind": kind, "metadata": {"name": "one", "labels": {}}, "spec": {}}
                return decoded(node, body)[1], id(node.fields["metadata"])

            with ThreadPoolExecutor(THREADS) as pool:
                told = list(pool.map(unknown, range(THREADS)))
            assert [names for names, _ in told] == [[]] * THREADS
            assert len({metadata for _, metadata in told}) == 1  # one node each, which all share
    finally:
        sys.setswitchinterval(before)
