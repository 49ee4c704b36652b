"""What tests of all folders share: fixtures, the tiers, and the times that a run prints.

A test's place says what it costs (docs/testing.md). `make test` leaves out what is marked `full` or `soak`; nobody marks a test
`full` by hand but for some cases of a parametrised one.
"""

import os
import signal
import tempfile

import freezegun
import pytest
from hypothesis import HealthCheck, settings

from tests.support.postgres import own_postgres as own_postgres
from tests.support.postgres import postgres as postgres
from tests.support.times import Times

FULL = ("tests/realtime/", "tests/property/lab/", "tests/browser/")
"""Folders that `make test` leaves out, but for tests marked `smoke`: those that wait, the lab's own fuzzing, and a browser."""
DATABASES = ("tests/adapters/log/", "tests/adapters/sql/")
"""Where `make test` runs tests on PostgreSQL: what holds here holds for whatever stands on the log."""

# Small and large draw the same examples every time, so that `make test` and `make test-all` say the same twice. Who looks for new
# faults draws anew, and is told how to repeat a failure (`--hypothesis-profile anew`).
_PATIENT = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("small", deadline=None, suppress_health_check=_PATIENT, derandomize=True, database=None)
settings.register_profile("large", deadline=None, suppress_health_check=_PATIENT, derandomize=True, database=None)
settings.register_profile("anew", deadline=None, suppress_health_check=_PATIENT, print_blob=True)
settings.load_profile("small")

# freezegun looks at every attribute of every module that is loaded; the official client's modules load themselves when they are
# looked at, and break when they do so under a frozen clock.
freezegun.configure(extend_ignore_list=["kubernetes"])

# Whoever runs the tests in a window must see the same lines.
os.environ.pop("COLUMNS", None)

# Nor may the log and the settings of the person who runs them change what they see: dds keeps its files in a home of the tests.
# $HOME stays, for the caches of tools that tests start.
_HOME = tempfile.TemporaryDirectory(prefix="dds-tests-")
os.environ["XDG_STATE_HOME"] = _HOME.name
for _name in [name for name in os.environ if name.startswith("DDS_") or name == "KUBECONFIG"]:
    del os.environ[_name]

# Who starts the tests in the background may have told them to ignore Ctrl-C; the commands that they start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times())


@pytest.hookimpl(tryfirst=True)  # before `-m` is applied
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.nodeid
        if place.startswith(FULL) and item.get_closest_marker("smoke") is None:
            item.add_marker(pytest.mark.full)
        if "postgres" in getattr(item, "fixturenames", ()) and not place.startswith(DATABASES):
            item.add_marker(pytest.mark.full)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.drawn)
        # A set is printed in another order by each process, and the workers of one run have to collect the same names.
        given = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        if any(isinstance(value, set | frozenset) and len(value) > 1 and str(value) in place for value in given):
            raise pytest.UsageError(
                f"{place}: a parameter that is a set gives a name that differs from process to process"
            )
