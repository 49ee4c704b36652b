"""What every fabric, provider of machines and component keeps to, as tests to derive from. docs/extending.md has an example.

pytest comes with the extra `contracts`.
"""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{one}" for one in ("fabrics", "machines", "components")))
