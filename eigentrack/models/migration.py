"""Conversion of model configurations that older versions have written.

Some options of mixers have moved: `overshoot` and `sharp_after` now belong to the set of eigenvalues, and `first_gates` and
`first_eigenvalue` are initial values. Two are dropped: `write_noise`, which acted only in training, and DeltaNet's `key_norm`,
as its keys now always have length one.
"""

from __future__ import annotations

from typing import Any

# the options that each mixer no longer has
MOVED = {
    "deltanet": {"overshoot", "first_gates", "first_eigenvalue", "write_noise", "key_norm"},
    "gla": {"first_gates", "sharp_after"},
}
INITIAL = {"first_gates": "gates", "first_eigenvalue": "eigenvalue"}  # old option → name of the initialiser
DEFAULT_RANGE = [-1.0, 1.0]  # the eigenvalues of a configuration that names none


def current_form(values: dict[str, Any]) -> dict[str, Any]:
    """Return a complete or partial model configuration, in JSON values, in the form of this version.

    Faults in it are not repaired: ModelConfig reports them.
    """
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
        entries, is_list = entries * len(mixers), True  # one entry for several kinds of layers, of which some no longer take it
    moved, initial = [], []
    for place, entry in enumerate(entries):
        owners = [mixers[place]] if is_list else mixers  # a single entry is for all layers
        known = set.intersection(*(MOVED.get(owner, set()) for owner in owners))
        new, start = _moved(entry, entry.keys() & known, values.get("eigenvalues", DEFAULT_RANGE))
        moved.append(new)
        initial.append(start)
    changed = {**values, "mixer_options": moved if is_list else moved[0]}
    if any(initial):
        if values.get("initial"):
            return values  # old and new form at once: ModelConfig will refuse the old options by name
        changed["initial"] = initial if is_list else initial[0]
    return changed


def _moved(options: dict[str, Any], old: set[str], eigenvalues: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a mixer in the new form, and the initial values that were among them."""
    rest = {name: value for name, value in options.items() if name not in old}
    if options.get("key_norm") is False and "key_norm" in old and not options.get("bare"):
        rest["key_norm"] = False  # unsupported, so keep it for ModelConfig to refuse; a bare DeltaNet never used it
    given = {name: options[name] for name in old if options[name] is not None}
    if given.get("overshoot"):
        place = "eigenvalues" if rest.get("widened_from") is None else "widened_from"
        rest[place] = {"range": rest.get(place, eigenvalues), "overshoot": given["overshoot"]}
    if "sharp_after" in given:
        polygon = rest.get("eigenvalues", eigenvalues)
        if isinstance(polygon, dict) and "polygon" in polygon:
            rest["eigenvalues"] = {**polygon, "sharp_after": given["sharp_after"]}
        else:
            rest["sharp_after"] = given[
                "sharp_after"
            ]  # there is no polygon it could belong to: keep it for ModelConfig to refuse
    return rest, {new: given[name] for name, new in INITIAL.items() if name in given}
