"""Contract tests for fabrics, providers of machines and components of other packages: derive a test class from them.
docs/extending.md has an example. The extra `contracts` installs pytest.
"""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{one}" for one in ("fabrics", "machines", "components")))
