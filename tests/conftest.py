"""Fixtures that tests of several kinds share."""

from tests.support.postgres import postgres as postgres
