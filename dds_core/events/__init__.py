"""Events: facts (what was learned), decisions (what is wanted) and transitions (what a life went through).

Here is what all components share; what is one component's own is in its `events`, which has all of this as well. Nothing here
decides or folds anything.
"""

from dds_core.events.base import *  # noqa: F403
from dds_core.events.shared import *  # noqa: F403
