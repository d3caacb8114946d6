"""The spec of a NodeUpgradeTask; the control plane writes it."""

from nodeupgrade.api.run_settings import DriftPolicy, FlagPolicy, GuardPolicy, HashMode
from nodeupgrade.api.schema.blocks import choice, count, immutable, moment
from nodeupgrade.api.schema.model import Flag, ListOf, Record, Rule, Text, Whole
from nodeupgrade.api.task import ArtifactKind, TaskAction, Verdict

VERSION_TEXT = Text(longest=63)
RUN = Text(says="One attempt at this node; the status counts only for the run it names.", longest=64)
CONTAINERS_NAMED = ListOf(says="As namespace/pod/container.", item=Text(longest=400), most=20)

_AT_REST = (TaskAction.WAIT, TaskAction.RELEASE)

_REF = Record(
    says="The NodeUpgrade that holds the task.",
    fields={"name": Text(longest=253), "uid": Text(longest=64), "generation": Whole()},
    required=("name", "uid"),
)

_ARTIFACT = Record(
    says="The kubelet binary for the node's platform, fully resolved.",
    fields={
        "kind": choice(ArtifactKind, "Which of the following count."),
        "ref": Text(longest=512),
        "path": Text(longest=1024),
        "url": Text(longest=2048),
        "sha256": Text(longest=64, pattern="[0-9a-f]{64}"),
        "pullSecret": Text(longest=253),
    },
    required=("kind",),
)

_VERDICT = Record(
    says="What the control plane found when it verified the node after the run.",
    fields={
        "runID": RUN,
        "outcome": choice(Verdict, ""),
        "reason": Text(longest=128),
        "message": Text(longest=512),
        "restarted": count("Containers that were restarted."),
        "restartedList": CONTAINERS_NAMED,
        "decidedAt": moment(),
    },
    required=("runID", "outcome", "reason"),
)

_PAST = Record(
    fields={
        "upgrade": Text(says="The NodeUpgrade that held the task.", longest=253),
        "fromVersion": VERSION_TEXT,
        "toVersion": VERSION_TEXT,
        "result": choice(Verdict, "How it ended."),
        "time": moment(),
    },
    required=("upgrade", "fromVersion", "toVersion", "result"),
)

TASK_SPEC = Record(
    says="What the control plane wants of the node, and what it found in the end.",
    fields={
        "nodeName": Text(says="The node.", shortest=1, longest=253, transitions=(immutable("it is the lock"),)),
        "nodeUID": Text(longest=64, transitions=(immutable("a replaced node needs a new task"),)),
        "upgradeRef": _REF,
        "wave": Text(says="The wave the node belongs to.", longest=63),
        "order": count("The node's place in the rollout, counted from 0."),
        "runID": RUN,
        "action": choice(TaskAction, "What the node side is to do.", default=TaskAction.WAIT.value),
        "actionReason": Text(says="Why the action is Abort.", longest=128),
        "actionMessage": Text(longest=512),
        "retry": Text(says="The token of the retry that opened the task again.", longest=256),
        "resumes": Flag(says="Whether an earlier task was lost while its run may have been going on."),
        "fromVersion": VERSION_TEXT,
        "toVersion": VERSION_TEXT,
        "allowDowngrade": Flag(default=False),
        "artifact": _ARTIFACT,
        "hashMode": choice(HashMode, "", default=HashMode.REWRITE.value),
        "kubelet": Record(
            fields={
                "unit": Text(longest=255),
                "flagPolicy": choice(FlagPolicy, ""),
                "removeFlags": ListOf(item=Text(longest=128), most=64),
                "configurationDrift": choice(DriftPolicy, ""),
            },
        ),
        "verify": Record(
            fields={
                "settleSeconds": Whole(least=0),
                "kubeletDownBudgetSeconds": Whole(least=1),
                "nodeReadyTimeoutSeconds": Whole(least=1),
                "readinessGuard": choice(GuardPolicy, ""),
            },
        ),
        "deadline": moment("When the run is aborted."),
        "guard": Record(
            says="What the control plane says of the readiness guard.",
            fields={
                "wanted": Flag(says="The node side asks for it before it stops the kubelet."),
                "answers": Text(says="The request that is answered.", longest=64),
                "kubeletRunsBy": moment("When the new kubelet has to run; missing in an answer: no guard is possible."),
            },
        ),
        "cordon": Record(
            says="Who cordoned the node.",
            fields={
                "wasUnschedulable": Flag(says="It was cordoned before the run."),
                "byUs": Flag(says="It was cordoned for the run."),
            },
        ),
        "verdict": _VERDICT,
        "history": ListOf(says="Earlier runs on this node.", item=_PAST, most=5),
    },
    required=("nodeName", "nodeUID", "upgradeRef", "runID", "fromVersion", "toVersion", "artifact"),
    rules=(
        Rule(
            f"self.action in {[action.value for action in _AT_REST]} || self.runID.size() > 0",
            "an action other than Wait and Release needs a runID",
            lambda spec: spec["action"] in _AT_REST or bool(spec["runID"]),
        ),
    ),
)
