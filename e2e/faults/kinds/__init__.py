"""All faults, by kind, in the order in which `python -m e2e.faults` injects them."""

from e2e.faults import duties
from e2e.faults.kinds import (
    api_server,
    clients,
    drift,
    executor,
    failpoints,
    infrastructure,
    limits,
    locks,
    logs,
    lost,
    manifests,
    packages,
    people,
    pods,
    ports,
    shield,
    shims,
    state_files,
    unseen,
    wishes,
)

FAULTS = (
    *failpoints.FAULTS, *shims.FAULTS, *executor.FAULTS, *infrastructure.FAULTS, *api_server.FAULTS, *people.FAULTS,
    *pods.FAULTS, *drift.FAULTS, *lost.FAULTS, *shield.FAULTS, *duties.FAULTS, *unseen.FAULTS, *packages.FAULTS,
    *clients.FAULTS, *manifests.FAULTS, *state_files.FAULTS, *logs.FAULTS, *locks.FAULTS, *limits.FAULTS,
    *wishes.FAULTS, *ports.FAULTS,
)  # fmt: skip
