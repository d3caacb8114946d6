"""Provides Hypothesis strategies for containers, derived from the same table as the hashes."""

from typing import Any

from hypothesis import strategies as st

from nodeupgrade.kubelethash import NEWEST_MINOR, OLDEST_MINOR, KubeletVersion, hash_container
from nodeupgrade.kubelethash.go.schema import CONTAINER, STRUCTS, StructField

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\b\f"), max_size=8)
QUANTITY = st.sampled_from(["0", "1", "100m", "64Mi", "100Mi", "1Gi", "1Pi", "2500M", "1e3", "128974848"])


def _values(type_: str) -> st.SearchStrategy[Any]:
    if type_.startswith("*"):
        return _values(type_[1:])
    if type_.startswith("[]"):
        return st.lists(_values(type_[2:]), min_size=1, max_size=2)
    if type_ in STRUCTS:
        return st.deferred(lambda: _struct(type_))
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "IntOrString": st.integers(0, 65535) | TEXT,
        "Quantity": QUANTITY,
        "ResourceList": st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), QUANTITY, min_size=1),
    }
    return scalars.get(type_, TEXT)


def _flat(struct: str) -> list[StructField]:
    fields: list[StructField] = []
    for field in STRUCTS[struct]:
        fields += [field] if field.key else _flat(field.type)
    return fields


def _struct(name: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = {field.key: _values(field.type) for field in _flat(name)}
    return st.fixed_dictionaries({}, optional=fields)


CONTAINERS = _struct(CONTAINER)
MINORS = st.integers(OLDEST_MINOR, NEWEST_MINOR)


def without_newer_fields(value: Any, minor: int, struct: str = CONTAINER) -> Any:
    """The container as an API server of that minor would have stored it."""
    known = {field.key: field for field in _flat(struct) if field.since <= minor}
    return {key: _pruned(item, minor, known[key].type.lstrip("*[]")) for key, item in value.items() if key in known}


def _pruned(item: Any, minor: int, base: str) -> Any:
    if base not in STRUCTS:
        return item
    if isinstance(item, list):
        return [without_newer_fields(each, minor, base) for each in item]
    return without_newer_fields(item, minor, base)


def with_empties(value: Any, struct: str = CONTAINER) -> Any:
    """The same container with every absent field written as null, an empty list or an empty map."""
    filled = {}
    for field in _flat(struct):
        base = field.type.lstrip("*[]")
        item = value.get(field.key)
        if item is None:
            empty: dict[str, Any] = {"[": [], "R": {} if base == "ResourceList" else None}
            filled[field.key] = empty.get(field.type[0])
        elif base in STRUCTS:
            filled[field.key] = (
                [with_empties(x, base) for x in item] if isinstance(item, list) else with_empties(item, base)
            )
        else:
            filled[field.key] = item
    return filled


def with_keys_reversed(value: Any) -> Any:
    """The same value with every map in the opposite order, and fields from a later Kubernetes in it."""
    if isinstance(value, dict):
        return {key: with_keys_reversed(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [with_keys_reversed(each) for each in value]
    return value


def hashed(container: dict[str, Any], minor: int) -> str:
    return hash_container(container, KubeletVersion(1, minor))
