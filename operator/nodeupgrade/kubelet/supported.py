"""Which kubelets are supported: those whose container hashes can be computed."""

from functools import lru_cache

from nodeupgrade.api.limits import LABEL_LENGTH
from nodeupgrade.api.printable import stored
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet, era_of


@lru_cache(maxsize=256)
def unsupported_version(version: str) -> str | None:
    """Return why container hashes of a kubelet version cannot be computed, or None if they can."""
    if len(version) > LABEL_LENGTH:
        return f"{stored(version, LABEL_LENGTH)} is longer than {LABEL_LENGTH} characters"
    try:
        era_of(KubeletVersion.parse(version))
    except UnsupportedKubelet as error:
        return str(error)
    return None
