"""Changes of state files between releases of the kubelet; a part of `kubelet.history`."""

from nodeupgrade.kubelethash import MinorChange
from nodeupgrade.kubelethash.changes import enhancement, issue, pull

CPU_STATE_V2 = MinorChange(
    what="`cpu_manager_state` has a second format, which older kubelets refuse.",
    link=pull(84462),
    first=18,
)
CPU_STATE_V1_UNREAD = MinorChange(
    what="`cpu_manager_state` is no longer read in its first format, which stays on disk while nothing is pinned.",
    link=pull(139068),
    first=37,
)
STATE_AS_TEXT = MinorChange(
    what="The state of the CPU and memory managers is kept a second time, as text with a checksum of its own.",
    link=pull(139102),
    first=37,
)
MEMORY_MANAGER = MinorChange(
    what="The kubelet has a memory manager, with a state file.",
    link=enhancement(1769),
    first=21,
)
DEVICE_CHECKPOINT_V1_UNREAD = MinorChange(
    what="The device checkpoint of a kubelet before 1.20 is no longer read.",
    link=pull(123398),
    first=31,
)
DEVICE_CHECKPOINT_V2 = MinorChange(
    what="The device checkpoint has a second format.",
    link=issue(102880),
    first=20,
)
STATUS_STATE = MinorChange(
    what="With `InPlacePodVerticalScaling`, the kubelet exits if it cannot read `pod_status_manager_state`.",
    link=enhancement(1287),
    first=27,
    last=32,
)
STATUS_STATE_CHANGED = MinorChange(
    what="`pod_status_manager_state` has a new format; a kubelet that reads it exits if it finds the other one.",
    link=pull(126620),
    first=32,
)
POD_STATE = MinorChange(
    what="With `InPlacePodVerticalScaling`, on by default, the kubelet exits if it cannot read `allocated_pods_state` "
    "or `actuated_pods_state`.",
    link=pull(130599),
    first=33,
)
POD_LEVEL_STATE = MinorChange(
    what="With `PodLevelResourceManagers`, the state of the CPU and memory managers is in a format that others refuse.",
    link=pull(137751),
    first=36,
    last=36,
)
DRA_STATE_CHANGED = MinorChange(
    what="`dra_manager_state` has another format; the kubelet exits if it finds the old one.",
    link=issue(127653),
    first=31,
)
DRA_BY_DEFAULT = MinorChange(
    what="Dynamic resource allocation is on, unless its feature gate is turned off.",
    link=enhancement(4381),
    first=34,
)
