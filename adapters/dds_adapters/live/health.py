"""Whether a scaler lives and is ready, check by check, in the words and forms of kube-apiserver's /livez and /readyz.

Pure: checks are functions that read what others keep, clocks are given, nothing here serves HTTP. A check must be quick and may
be called from any thread; one that raises has failed, and no others with it.

Not live means that only a new process can help: the loop stands still, a thread is dead. Not ready means that something has to
come back: the log, the view of a resource. A standby is ready: it does what it is there for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from dds_core.text import scrub


class Verdict(NamedTuple):
    """What a check says. `detail` says why not, or what else is good to know."""

    ok: bool
    detail: str = ""


Check = Callable[[], Verdict]

OK = Verdict(True)
STANDBY = Verdict(True, "standby")


class Said(NamedTuple):
    """An answer: HTTP status and text."""

    code: int
    text: str


class Health:
    """The checks of one process, by name, in the order in which they are shown."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        """`ready` are those beyond what makes it live; what does not live is not ready."""
        self._live = dict(live)
        self._ready = {**live, **ready}

    def livez(self, check: str = "", *, verbose: bool = False, exclude: Collection[str] = ()) -> Said:
        """The answer of /livez, or of /livez/CHECK."""
        return _said("livez", self._live, check, verbose, exclude)

    def readyz(self, check: str = "", *, verbose: bool = False, exclude: Collection[str] = ()) -> Said:
        """The answer of /readyz, or of /readyz/CHECK."""
        return _said("readyz", self._ready, check, verbose, exclude)


def _said(page: str, checks: Mapping[str, Check], one: str, verbose: bool, exclude: Collection[str]) -> Said:
    if one:
        return _alone(checks, one)
    lines, failed = [], False
    for name, check in checks.items():
        if name in exclude:
            lines.append(f"[+]{name} excluded: ok")
            continue
        verdict = _asked(check)
        failed = failed or not verdict.ok
        lines.append(_line(name, verdict))
    unknown = sorted(set(exclude) - checks.keys())
    lines += [f"warn: some health checks cannot be excluded: no matches for {', '.join(map(repr, unknown))}"] * bool(
        unknown
    )
    lines.append(f"{page} check {'failed' if failed else 'passed'}")
    if failed or verbose:
        return Said(500 if failed else 200, "\n".join(lines) + "\n")
    return Said(200, "ok")


def _alone(checks: Mapping[str, Check], name: str) -> Said:
    check = checks.get(name)
    if check is None:
        return Said(404, "404 page not found\n")
    verdict = _asked(check)
    return Said(200, "ok") if verdict.ok else Said(500, f"internal server error: {verdict.detail}\n")


def _asked(check: Check) -> Verdict:
    try:
        return check()
    except Exception as error:
        return Verdict(False, f"the check itself failed with {type(error).__name__}")


def _line(name: str, verdict: Verdict) -> str:
    detail = scrub(verdict.detail)
    if verdict.ok:
        return f"[+]{name} ok" + (f": {detail}" if detail else "")
    return f"[-]{name} failed: {detail}" if detail else f"[-]{name} failed"


# -- what a scaler is asked -------------------------------------------------------------------------------------------


def turning(last: Callable[[], float], now: Callable[[], float], patience: float) -> Check:
    """The loop that decides came round within `patience` seconds. `last` is the instant at which it last did, on the clock `now`:
    it comes round even when there is nothing to decide, and when the log is away."""

    def check() -> Verdict:
        age = now() - last()
        return OK if age <= patience else Verdict(False, f"the loop has not come round for {age:.0f} s")

    return check


def alive(threads: Callable[[], Mapping[str, bool]]) -> Check:
    """No thread has ended that should run. `threads` gives for each by name whether it is alive."""

    def check() -> Verdict:
        dead = sorted(name for name, alive in threads().items() if not alive)
        return Verdict(False, f"{', '.join(dead)} ended") if dead else OK

    return check


def answering(overdue: Callable[[], float], patience: float = 60.0) -> Check:
    """No request of the election hangs for longer than `patience` seconds: a standby whose request never returns would stand by
    for ever. `overdue` gives the seconds by which the one that is under way is late."""

    def check() -> Verdict:
        late = overdue()
        return OK if late <= patience else Verdict(False, f"a request hangs, {late:.0f} s overdue")

    return check


def log_there(away: Callable[[], str]) -> Check:
    """The log can be written. `away` says why not, "" when it can."""

    def check() -> Verdict:
        why = away()
        return Verdict(False, why) if why else OK

    return check


def views(
    wanted: Collection[str], synced: Callable[[], Collection[str]], lost: Callable[[], Collection[str]]
) -> dict[str, Check]:
    """For each wanted resource a check that all of it was seen, and is still followed."""

    def of(resource: str) -> Check:
        def check() -> Verdict:
            if resource in lost():
                return Verdict(False, "not served, or this user may not list and watch it")
            return OK if resource in synced() else Verdict(False, "not synced: it was not listed yet")

        return check

    return {resource: of(resource) for resource in wanted}


def unless_standby(leading: Callable[[], bool], check: Check) -> Check:
    """What only the leader has to have; a standby is ready without."""
    return lambda: check() if leading() else STANDBY
