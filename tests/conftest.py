"""Fixtures that tests of several kinds share."""

import freezegun

from tests.support.postgres import postgres as postgres

# freezegun looks at every attribute of every module that is loaded; the official client's modules load themselves when they are
# looked at, and break when they do so under a frozen clock.
freezegun.configure(extend_ignore_list=["kubernetes"])
