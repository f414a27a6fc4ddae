"""beartype as the tests use it: an int is fine where a float is asked for, as everywhere in Python."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
