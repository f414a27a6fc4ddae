"""Model configurations as older versions wrote them, turned into the present form.

Five options of mixers are written elsewhere since then: `overshoot` and `sharp_after` belong to the set of eigenvalues,
`first_gates` and `first_eigenvalue` are initial values; `write_noise` acted in training alone and is gone. DeltaNet's keys
always have length one, as `key_norm: true` said.
"""

from __future__ import annotations

from typing import Any

MOVED = {
    "deltanet": {"overshoot", "first_gates", "first_eigenvalue", "write_noise", "key_norm"},
    "gla": {"first_gates", "sharp_after"},
}
INITIAL = {"first_gates": "gates", "first_eigenvalue": "eigenvalue"}
DEFAULT_RANGE = [-1.0, 1.0]  # of a configuration without eigenvalues


def current_form(values: dict[str, Any]) -> dict[str, Any]:
    """Return a model configuration in JSON, whole or in part, as this version writes it; what is wrong with it stays."""
    mixer, options = values.get("mixer", "deltanet"), values.get("mixer_options")
    is_list = isinstance(options, list)
    entries: list[Any] = options if isinstance(options, list) else [options]
    mixers: list[Any] = mixer if isinstance(mixer, list) else [mixer] * len(entries)
    if not mixers or (is_list and len(mixers) != len(entries)):
        return values
    if not all(isinstance(entry, dict) for entry in entries) or not all(isinstance(name, str) for name in mixers):
        return values
    named = [MOVED.get(name, set()) for name in mixers]
    of_some = {option for options in named for option in options if any(option not in other for other in named)}
    if not is_list and entries[0].keys() & of_some:
        entries, is_list = entries * len(mixers), True  # one entry for layers of several kinds, of which some have changed
    moved, initial = [], []
    for place, entry in enumerate(entries):
        owners = [mixers[place]] if is_list else mixers  # one entry is that of all layers
        known = set.intersection(*(MOVED.get(owner, set()) for owner in owners))
        new, start = _moved(entry, entry.keys() & known, values.get("eigenvalues", DEFAULT_RANGE))
        moved.append(new)
        initial.append(start)
    changed = {**values, "mixer_options": moved if is_list else moved[0]}
    if any(initial):
        if values.get("initial"):
            return values  # old and new spelling at once: the old one is refused by its name
        changed["initial"] = initial if is_list else initial[0]
    return changed


def _moved(options: dict[str, Any], old: set[str], eigenvalues: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a mixer, and the initial values that were among them."""
    rest = {name: value for name, value in options.items() if name not in old}
    if options.get("key_norm") is False and "key_norm" in old and not options.get("bare"):
        rest["key_norm"] = False  # which no DeltaNet has any more; a bare one never asked
    given = {name: options[name] for name in old if options[name] is not None}
    if given.get("overshoot"):
        place = "eigenvalues" if rest.get("widened_from") is None else "widened_from"
        rest[place] = {"range": rest.get(place, eigenvalues), "overshoot": given["overshoot"]}
    if "sharp_after" in given:
        polygon = rest.get("eigenvalues", eigenvalues)
        if isinstance(polygon, dict) and "polygon" in polygon:
            rest["eigenvalues"] = {**polygon, "sharp_after": given["sharp_after"]}
        else:
            rest["sharp_after"] = given["sharp_after"]  # without corners to choose from
    return rest, {new: given[name] for name, new in INITIAL.items() if name in given}
