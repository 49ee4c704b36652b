"""Virtual time: it goes from timer to timer, and nowhere else."""

from dds_lab.time import VirtualTime


def test_a_cancelled_timer_lets_nothing_come_early() -> None:
    time = VirtualTime(seed=1, start=0)
    called: list[int] = []
    time.after(1.0, lambda: called.append(time.now())).cancel()
    time.after(30.0, lambda: called.append(time.now()))
    time.run(10_000_000)
    assert called == []
    assert time.now() == 10_000_000
    time.run(30_000_000)
    assert called == [30_000_000]


def test_calls_of_one_instant_come_in_the_order_in_which_they_were_asked_for() -> None:
    time = VirtualTime(seed=1, start=0)
    called: list[str] = []
    for name in "abc":
        time.after(1.0, lambda name=name: called.append(name))  # type: ignore[misc]
    time.run(1_000_000)
    assert called == ["a", "b", "c"]
