"""Which pods are asked for, and when one is known to matter no more."""

from __future__ import annotations

from dds_adapters.kubernetes.write.pods import AskPod
from dds_adapters.kubernetes.write.tasks import Task
from dds_adapters.runtime.scaler import PodQuestions
from dds_core import events as e
from dds_core.engine import Step
from dds_core.model import Claim, Consumer, Pod
from tests.support.world import A100, World


class Box:
    """An outlet."""

    def __init__(self) -> None:
        self.put_in: list[tuple[str, str]] = []

    def put(self, resource: str, uid: str, type: str, raw: bytes) -> None:
        assert resource == "pods" and uid.encode() in raw
        self.put_in.append((type, uid))


class Asked:
    """A world whose claim `train` is allocated and whose pod has a node, and what is asked about it."""

    def __init__(self, *, bound: bool = True) -> None:
        self.world = World("attach")
        self.world.node("node0")
        self.world.pool(A100, 4)
        self.world.claim("train")
        self.world.allocate("train", "node0")
        if bound:
            self.world.bind("train")
        self.box = Box()
        self.questions = PodQuestions(self.box)
        self.seen = len(self.world.steps)

    def asked(self) -> list[str]:
        steps, self.seen = self.world.steps[self.seen :], len(self.world.steps)
        return self._names([task for step in steps for task in self.questions.after(step, self.world.state)])

    def at_start(self) -> list[str]:
        return self._names(self.questions.at_start(self.world.state))

    def gone(self, name: str = "train") -> list[str]:
        fact = e.ClaimGone(self.world.get(Claim, name).uid)
        self.questions.before(fact, self.world.state)
        self.world.feed(fact)
        return self.asked()

    def _names(self, tasks: list[Task]) -> list[str]:
        writes = [task.write for task in tasks]
        return [write.pod.uid for write in writes if isinstance(write, AskPod)]


def test_a_pod_that_no_longer_reserves_its_claim_is_asked_for() -> None:
    there = Asked()
    assert there.at_start() == []
    there.world.unreserve("train")
    assert there.asked() == there.at_start() == ["pod-default-train"]


def test_a_pod_that_waits_is_not_asked_for() -> None:
    there = Asked(bound=False)
    there.world.unreserve("train")
    assert there.asked() == there.at_start() == []


def test_a_pod_that_reserves_a_claim_and_is_not_known_is_asked_for() -> None:
    there = Asked(bound=False)
    there.world.unreserve("train")
    there.world.reserve("train")
    assert there.asked() == []
    there.world.unreserve("train")
    pod = there.world.get(Pod, "train")
    claim = there.world.get(Claim, "train")
    there.world.gone(pod)
    there.asked()
    there.world.update(claim, consumers=(Consumer(pod.uid, pod.name),))
    assert there.asked() == there.at_start() == [pod.uid]


def test_a_pod_with_a_node_that_lost_its_last_claim_is_told_as_gone() -> None:
    there = Asked()
    assert there.gone() == []
    assert there.box.put_in == [("DELETED", "pod-default-train")]


def test_a_pod_that_still_has_a_claim_or_waits_is_not() -> None:
    there = Asked()
    there.world.claim("second", pod="train")
    assert there.gone() == [] and there.box.put_in == []
    assert there.gone("second") == []
    assert there.box.put_in == [("DELETED", "pod-default-train")]
    waiting = Asked(bound=False)
    assert waiting.gone() == [] and waiting.box.put_in == []


def test_without_an_outlet_nobody_is_asked() -> None:
    there = Asked()
    there.questions = PodQuestions(None)
    there.world.unreserve("train")
    assert there.asked() == there.at_start() == []
    step = Step(there.world.now, e.ClaimGone("nobody"), [])
    assert there.questions.after(step, there.world.state) == []
