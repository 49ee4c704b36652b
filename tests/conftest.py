"""Fixtures that tests of several kinds share."""

import signal

import freezegun
import pytest

from tests.support.postgres import postgres as postgres
from tests.support.times import Times

# freezegun looks at every attribute of every module that is loaded; the official client's modules load themselves when they are
# looked at, and break when they do so under a frozen clock.
freezegun.configure(extend_ignore_list=["kubernetes"])

# Who starts the tests in the background may have told them to ignore Ctrl-C; the commands that they start would ignore it too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times())
