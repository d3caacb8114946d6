"""The status of a NodeUpgradeTask; the node side writes it."""

from nodeupgrade.api.schema.blocks import choice, count, moment
from nodeupgrade.api.schema.model import Flag, ListOf, Number, Record, Text, Whole
from nodeupgrade.api.schema.task_spec import CONTAINERS_NAMED, RUN, VERSION_TEXT
from nodeupgrade.api.task_status import GuardState, StepResult, TaskPhase


def _binary(says: str) -> Record:
    return Record(says=says, fields={"version": VERSION_TEXT, "sha256": Text(longest=64), "path": Text(longest=1024)})


_STEP = Record(
    fields={
        "name": Text(longest=64),
        "result": choice(StepResult, ""),
        "startedAt": moment(),
        "finishedAt": moment(),
        "detail": Text(longest=128),
    },
    required=("name", "result"),
)

_FORECAST = Record(
    fields={"container": Text(says="As namespace/pod/container.", longest=400), "why": Text(longest=256)},
    required=("container", "why"),
)

_PREVIEW = Record(
    says="What an upgrade would do on this node; nothing has been touched.",
    fields={
        "rewritten": count("Containers whose stored hash would be rewritten."),
        "unchanged": count("Containers whose stored hash is right for both versions."),
        "wouldRestart": count("Containers that a plain kubelet swap would restart."),
        "wouldRestartList": ListOf(says="The first of them.", item=_FORECAST, most=20),
        "staticPods": count("Static pods whose manifest would be pinned."),
        "removedFlags": ListOf(says="Kubelet flags that would be left out.", item=Text(longest=128), most=64),
    },
)

TASK_STATUS = Record(
    says="What the node side says about the run named by runID.",
    default={"observedGeneration": -1, "phase": TaskPhase.PENDING.value},
    fields={
        "runID": RUN,
        "observedGeneration": Whole(default=-1),
        "phase": choice(TaskPhase, ""),
        "reason": Text(longest=128),
        "message": Text(says="A sentence that says what to do.", longest=512),
        "steps": ListOf(item=_STEP, most=16),
        "kubelet": Record(
            says="The kubelet before and after, and the seconds in between.",
            fields={"before": _binary(""), "after": _binary(""), "downSeconds": Number()},
        ),
        "runtime": Record(
            says="The container runtime, as CRI names it.",
            fields={"name": Text(longest=63), "version": Text(longest=63)},
        ),
        "containers": Record(
            says="What became of the containers.",
            fields={
                "baseline": count("Running before."),
                "rewritten": count("Whose stored hash was rewritten."),
                "unchanged": count("Whose stored hash was right for both versions."),
                "restarted": count("Which should be 0."),
                "unknown": count("Of which it is not known, because the runtime did not answer at the end."),
                "restartedList": CONTAINERS_NAMED,
                "endedList": ListOf(
                    says="That ended by themselves, or with their pod, while the new kubelet settled in.",
                    item=Text(longest=400),
                    most=20,
                ),
                "readinessFlaps": ListOf(
                    says="Pods, as namespace/name, that were reported unready although their containers ran on.",
                    item=Text(longest=400),
                    most=20,
                ),
            },
        ),
        "guard": Record(
            says="What the node side says of the readiness guard.",
            fields={
                "state": choice(GuardState, ""),
                "ask": Text(says="New for every request.", longest=64),
                "exposureSeconds": count("How long the new kubelet may need to have probed every pod."),
                "detail": Text(says="Why it is not in force, and why flaps were not observed, if so.", longest=256),
            },
        ),
        "hazards": ListOf(
            says="What forbids the upgrade, and what deserves attention.",
            item=Record(
                fields={
                    "reason": Text(longest=128),
                    "pod": Text(longest=400),
                    "detail": Text(longest=512),
                    "warning": Flag(says="It forbids nothing."),
                },
                required=("reason",),
            ),
            most=20,
        ),
        "preview": _PREVIEW,
        "startedAt": moment(),
        "finishedAt": moment(),
    },
)
