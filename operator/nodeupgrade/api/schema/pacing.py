"""``spec.strategy``, ``windows``, ``blackouts`` and ``timeouts``: how fast, and when. All of it may be changed."""

from dataclasses import replace
from datetime import datetime, timedelta

from nodeupgrade.api.schema.blocks import choice, duration, label_key, portion, stated_moment
from nodeupgrade.api.schema.model import Examination, ListOf, Record, Rule, Text, Whole
from nodeupgrade.api.upgrade_spec import SLOTS, GrowthType, ThresholdPolicy, TopologyMode, Window
from nodeupgrade.api.windows import check_window

_TOPOLOGY = Record(
    says="Limits by failure domain; nodes without the label form a domain of their own.",
    fields={
        "key": label_key("The node label whose value names the domain, for example topology.kubernetes.io/zone."),
        "maxPerDomain": Whole(says="Nodes in flight at the same time in one domain.", least=1, most=SLOTS, default=1),
        "mode": choice(
            TopologyMode,
            "Whether one domain is finished before the next, or all are worked on a little.",
            default="Spread",
        ),
    },
    required=("key",),
)

_GROWTH = Record(
    says="Begin each wave, and begin anew after each failure, with one node in flight.",
    # Spelled out: the API server asks the rules of a default before it fills in what is inside.
    default={"type": "Fixed", "factor": 2},
    fields={
        "type": choice(
            GrowthType,
            "Fixed: the limit at once. Linear, Exponential: after as many successes in a row as there are slots, slots "
            "are added or multiplied by factor.",
            default="Fixed",
        ),
        "factor": Whole(says="Slots to add, or to multiply by.", least=1, most=SLOTS, default=2),
        "cap": portion("Where growth ends, beside maxConcurrent.", most=SLOTS),
    },
    rules=(
        Rule(
            "self.type != 'Exponential' || self.factor >= 2",
            "Exponential growth by a factor of 1 does not grow; write a factor from 2",
            lambda growth: growth["type"] != GrowthType.EXPONENTIAL or growth["factor"] >= 2,
        ),
    ),
)

STRATEGY = Record(
    says="Budgets. All of them may be changed at any time.",
    default={},
    mutable=True,
    fields={
        "maxConcurrent": portion(
            "Nodes in flight at the same time, at most 100. A percentage is of the rollout's nodes and rounds down, to "
            "at least one.",
            1,
            most=SLOTS,
        ),
        "maxUnavailable": portion(
            "Nodes of the rollout that may be unavailable at the same time for whatever reason: in flight, cordoned or "
            "not Ready. Unset: 10%, and at least one more than maxConcurrent."
        ),
        "topology": _TOPOLOGY,
        "growth": _GROWTH,
        "nodeInterval": duration("Rest after a node's success.", "0s"),
        "failureThreshold": portion("Failed or rolled-back nodes at which no further node is started.", 1),
        "onThreshold": choice(ThresholdPolicy, "Whether the rollout then waits for a human, or ends.", default="Pause"),
    },
)


_PLAIN = Window(start="0 0 * * *", duration=timedelta(hours=1))


def _window_problem(window: Window) -> str:
    try:
        check_window(window)
    except ValueError as error:
        return str(error)
    return ""


_WINDOW = Record(
    fields={
        "start": Text(
            says="Cron expression of five fields: minute, hour, day of month, month, day of week.",
            longest=128,
            pattern=r"\S+( +\S+){4}",
            write="a cron expression of five fields such as '0 22 * * 1-5'",
            examinations=(Examination(lambda start: _window_problem(replace(_PLAIN, start=start))),),
        ),
        "duration": duration("How long it stays open.", positive=True),
        "timeZone": Text(
            says="IANA time zone of start, for example Europe/Berlin.",
            longest=64,
            pattern=r"[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*",
            default="UTC",
            write="an IANA time zone such as Europe/Berlin",
            examinations=(Examination(lambda zone: _window_problem(replace(_PLAIN, time_zone=zone))),),
        ),
    },
    required=("start", "duration"),
)

WINDOWS = ListOf(
    says="When nodes may be started: in any of the windows, less the blackouts. Without windows: at any time. Nodes in "
    "flight are always finished.",
    item=_WINDOW,
    most=16,
    default=[],
    mutable=True,
)

BLACKOUTS = ListOf(
    says="When no node may be started, whatever the windows say.",
    item=Record(
        fields={"from": stated_moment("Its begin."), "to": stated_moment("Its end.")},
        required=("from", "to"),
        rules=(
            Rule(
                "self.to > self.from",
                "its end must be later than its begin; exchange from and to",
                lambda blackout: datetime.fromisoformat(blackout["to"]) > datetime.fromisoformat(blackout["from"]),
            ),
        ),
    ),
    most=16,
    default=[],
    mutable=True,
)

TIMEOUTS = Record(
    says="How long things may take.",
    default={},
    mutable=True,
    fields={
        "node": duration("One node, before its run is aborted.", "15m", positive=True),
        "wave": duration("One wave; unset: for ever.", positive=True),
        "total": duration("The whole rollout; unset: for ever.", positive=True),
    },
)
