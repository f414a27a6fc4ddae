"""Values as every reader of JSON takes them: a complex number becomes [real, imaginary], an infinity or NaN null."""

from __future__ import annotations

import math
from typing import Any


def plain_json(value: Any) -> Any:
    if isinstance(value, complex):
        return [plain_json(value.real), plain_json(value.imag)]
    if isinstance(value, dict):
        return {key: plain_json(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
