"""The status of a NodeUpgrade. Its bounds keep it below 64 KiB whatever the size of the fleet."""

from nodeupgrade.api.schema.blocks import choice, count, moment, node_name
from nodeupgrade.api.schema.model import ListOf, MapOf, Record, Sort, Text, Whole
from nodeupgrade.api.schema.waves import MOST_WAVES
from nodeupgrade.api.upgrade_spec import SLOTS
from nodeupgrade.api.upgrade_status import WaveState


def _counts(says: str, **of: str) -> Record:
    return Record(says=says, fields={name: count(meaning) for name, meaning in of.items()})


_CONDITION = Record(
    fields={
        "type": Text(longest=64),
        "status": Text(choices=("True", "False", "Unknown")),
        "reason": Text(says="In one word, for programs.", longest=64, pattern="[A-Za-z][A-Za-z0-9]*"),
        "message": Text(says="In a sentence, for people.", longest=1024),
        "lastTransitionTime": moment("When the status last changed."),
        "observedGeneration": Whole(says="The generation of the spec that this is about."),
    },
    required=("type", "status", "reason", "message", "lastTransitionTime"),
)

_WAVE = Record(
    fields={
        "name": Text(longest=63),
        "state": choice(WaveState, "Where the wave is."),
        "total": count("Its nodes."),
        "succeeded": count(),
        "skipped": count(),
        "refused": count(),
        "failed": count("Nodes that failed or were rolled back."),
        "inProgress": count(),
        "startedAt": moment(),
        "completedAt": moment("When its last node was finished."),
        "approvedBy": Text(says="Who or what approved it.", longest=128),
        "approvedAt": moment(),
    },
    required=("name",),
)

_FAILURE = Record(
    fields={
        "node": node_name(),
        "step": Text(says="The step that failed.", longest=64),
        "reason": Text(longest=64),
        "message": Text(longest=256),
        "time": moment(),
    },
    required=("node", "reason"),
)

STATUS = Record(
    says="What is true of the rollout; programs use the conditions.",
    default={"observedGeneration": -1},
    fields={
        "observedGeneration": Whole(
            says="The generation of the spec that this is about; -1 before the control plane has seen the object.",
            default=-1,
        ),
        "acceptedSpecDigest": Text(says="Of what may not be changed in the spec, once it was accepted.", longest=80),
        "lastHandledRetry": Text(says="The token of the last retry that was carried out.", longest=256),
        "phase": Text(says="For people only; programs use the conditions.", longest=32),
        "progress": Text(says="Nodes that are finished, of all nodes.", longest=32),
        "failed": count("Nodes that failed or were rolled back."),
        "counts": _counts(
            "Nodes by how they stand; their sum is total.",
            total="",
            pending="",
            inProgress="",
            succeeded="",
            skipped="Left alone on purpose.",
            refused="Untouched, because something speaks against it.",
            failed="Given up.",
            rolledBack="",
            rollbackFailed="They need a human.",
        ),
        "containers": _counts(
            "Containers of the nodes that have been verified.",
            baseline="Running before.",
            rewritten="Whose stored hash was rewritten.",
            unchanged="Whose stored hash was right for both versions.",
            restarted="Which should be 0.",
        ),
        "inFlight": ListOf(
            says="Nodes that hold a slot; written before a node is touched.",
            item=node_name(),
            most=SLOTS,
            sort=Sort.SET,
        ),
        "failures": ListOf(says="The latest of them.", item=_FAILURE, most=20),
        "skips": MapOf(says="Reason to number of nodes.", value=count(), most=24),
        "currentWave": Record(
            says="The wave that is worked on.",
            fields={
                "name": Text(longest=63),
                "index": Whole(says="Counted from 1.", least=1),
                "of": Whole(least=1),
                "startedAt": moment(),
                "soakUntil": moment("When the rest after its last node is over."),
            },
            required=("name", "index", "of"),
        ),
        "waves": ListOf(says="All waves, in order.", item=_WAVE, most=MOST_WAVES + 1, sort=Sort.MAP, key="name"),
        "preview": _counts(
            "What action Plan found on the nodes.",
            checked="Nodes that have reported.",
            refused="Of these, nodes that would be refused.",
            rewritten="Containers whose stored hash would be rewritten.",
            wouldRestart="Containers that a plain kubelet swap would restart.",
        ),
        "nextWindow": moment("When nodes may be started again."),
        "plannedAt": moment("When every selected node had been claimed."),
        "startedAt": moment("When the first node was started."),
        "completedAt": moment("When the rollout was over."),
        "conditions": ListOf(
            says="Accepted, Planned, Reconciling, Stalled, Ready, Succeeded, Degraded, ZeroRestart, ReadinessGuarded.",
            item=_CONDITION,
            most=16,
            sort=Sort.MAP,
            key="type",
        ),
    },
)
