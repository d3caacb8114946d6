"""The subordinate IDs of the host's user `kubelet`, of which kubelets make user namespaces. Pure."""

from dataclasses import dataclass

from nodeupgrade.text import lines, number, words

USER = "kubelet"
_SOURCE = "subid:"
_FILES = "files"

IdRange = tuple[int, int]
"""The first ID, and how many there are."""


@dataclass(frozen=True, slots=True)
class UserIds:
    """What `getsubids` tells a kubelet about that user, as far as it is known: another program may know the ranges."""

    users: tuple[IdRange, ...] | None = None
    groups: tuple[IdRange, ...] | None = None

    def unfit(self, per_pod: int, pods: int) -> str:
        """Say why no kubelet starts with them that makes so many namespaces of so many IDs; empty if one does."""
        if self.users is None or self.groups is None:
            return ""
        if not self.users or not self.groups:
            return f"has no subordinate {'groups' if self.users else 'users'}"
        if self.users != self.groups:
            return "has other subordinate groups than users"
        if len(self.users) > 1:
            return "has several ranges of subordinate IDs"
        ((first, count),) = self.users
        if max(first, count) >= 2**32 or first < per_pod or first % per_pod or count % per_pod:
            return f"has {count} subordinate IDs from {first} on, of which a kubelet takes only multiples of {per_pod}"
        if count // per_pod < pods:
            return f"has {count} subordinate IDs, too few for {pods} pods (maxPods) with {per_pod} each"
        return ""

    def holds(self, first: int, per_pod: int) -> bool:
        """Report whether the IDs of a pod are among them, as far as they are known."""
        if self.users is None or len(self.users) != 1:
            return True
        ((begin, count),) = self.users
        return begin <= first and first + per_pod <= begin + count


def id_of(name_service: str) -> str | None:
    """Return the ID of `kubelet` by the text of /etc/passwd or /etc/group; ``None`` if there is none of this name."""
    fields = (line.split(":") for line in lines(name_service))
    return next((each[2] for each in fields if each[0] == USER and len(each) > 2), None)


def id_ranges(text: str, own_id: str | None) -> tuple[IdRange, ...] | None:
    """Return the ranges of `kubelet`, or of its ID, in /etc/subuid or /etc/subgid; ``None`` if it is not known.

    A line of another form counts for nothing; numbers may be octal and hexadecimal, which nobody writes.
    """
    found = list[IdRange]()
    for owner, *fields in (line.split(":") for line in lines(text)):
        if owner not in {USER, own_id} or len(fields) != 2:
            continue
        values = [number(each) for each in fields if each == "0" or not each.startswith("0")]
        if len(values) != 2 or values[0] is None or values[1] is None:
            return None
        found.append((values[0], values[1]))
    return tuple(found)


def is_in_files(name_service_switch: str) -> bool:
    """Report whether these files say who has which subordinate IDs, and no other source of /etc/nsswitch.conf."""
    for line in lines(name_service_switch):
        if line.lower().startswith(_SOURCE) and (sources := words(line[len(_SOURCE) :])):
            return sources[0] == _FILES
    return True
