"""Settings for all tests of ops."""

from __future__ import annotations

import os

if os.environ.get("TRITON_INTERPRET") == "1":
    from tests.ops.interpreted_products import add_terms_in_order

    add_terms_in_order()
