"""Checks of the files that are exchanged together with the kubelet (``spec.files``)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nodeupgrade.api.limits import shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import immutable_settings
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelet.trial_command import accepted, objection
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.startup import SAID
from nodeupgrade.node.host.systemd.drop_ins import decisive_settings
from nodeupgrade.node.plan.exchanged_files import FileFound, OwnPlaces, changes_of, is_drop_in, obstacle, reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFound:
    """The files to exchange, and what they change."""

    found: tuple[FileFound, ...]
    unit: str  # the kubelet's unit
    own: OwnPlaces  # of the running kubelet
    current: KubeletVersion | None
    before: KubeletLayout  # layout of the running kubelet
    after: KubeletLayout  # layout of the new kubelet, with the new files
    way_back: str | None = None  # what the old kubelet prints in a dry run with the old files; None if it was not tried
    # the other names of files that change under which the kubelet's start reads them, through symbolic links; by path
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@check(Reason.FILE_NOT_REPLACEABLE, acceptable=False)
def files_can_be_exchanged(facts: FilesFound) -> Iterator[Found]:
    """Every file of ``spec.files`` can be exchanged by a rename, and put back as it was.

    Files that others change, or that say which node it is, are not exchanged: static pods, the kubelet's kubeconfig and
    certificates, drop-ins of other units; symbolic links to them count.
    """
    for each in changes_of(facts.found):
        if problem := reserved(each.new.path, facts.unit, facts.own) or obstacle(each):
            yield f"{each.new.path} of spec.files cannot be replaced: {problem}"


@check(
    Reason.SETTING_NOT_CHANGEABLE,
    Hazard.CGROUP_ROOT_CHANGES,
    Hazard.DIRECTORIES_CHANGE,
    Hazard.NODE_IDENTITY_CHANGES,
    acceptable=False,
)
def files_keep_what_must_stay(facts: FilesFound) -> Iterator[Found]:
    """With ``spec.files`` the kubelet keeps its directories, endpoints, cgroups and its node's name and address."""
    for name in immutable_settings.changed(facts.before.settings, facts.after.settings):
        yield f"spec.files would change the kubelet's {name}, which must stay as it is while pods run"


@check(Reason.SETTING_NOT_CHANGEABLE, Hazard.COMMAND_LINE_DRIFTED, acceptable=False)
def drop_ins_start_the_same(facts: FilesFound) -> Iterator[Found]:
    """A drop-in of ``spec.files`` changes neither what is started nor what ends with it.

    How systemd would understand such a change shows only once it is made, with the kubelet down.
    """
    for each in changes_of(facts.found):
        if not is_drop_in(each.new.path):
            continue
        before, after = decisive_settings(each.content), decisive_settings(each.new.content)
        if before != after:
            line = next((line for line in (*after, *before) if line not in {*before} & {*after}), "the order of lines")
            name = line.partition("=")[0]  # its value may be secret
            yield (
                f"{each.new.path} of spec.files changes {name}: a drop-in may set limits, weights and accounting; "
                "flags belong in the environment file or the configuration file"
            )


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.CONFIGURATION_REJECTED, acceptable=False)
def old_kubelet_accepts_its_files(facts: FilesFound) -> Iterator[Found]:
    """Where ``spec.files`` changes files, the old kubelet accepts the old ones, so that there is a way back."""
    output = facts.way_back
    if output is not None and not accepted(output):
        yield (
            f"kubelet {facts.current} does not accept its own configuration in a dry run, so there would be no way "
            f"back: {shorten(objection(output), SAID)}"
        )
