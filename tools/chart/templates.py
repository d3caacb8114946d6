"""Makes templates of manifests: text with its comments, in which only what a value decides is replaced."""

import re
from dataclasses import dataclass

import yaml

from nodeupgrade.api.json import Json

POLICY_KINDS = frozenset({"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
GUARD = "nodeupgrade-readiness-guard"
HINT = "{{- /* Generated from %s; to change it: make chart */ -}}\n"


class ChartError(Exception):
    """A manifest does not look as the chart expects; the message says which, and what."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A place of a manifest that a value decides; it must be there exactly as often as said."""

    pattern: str
    template: str
    times: int = 1


_IMAGE = '{{ include "nodeupgrade.image" . }}'
_PULL_POLICY = "          imagePullPolicy: {{ .Values.image.pullPolicy }}"
_RECENT = 'include "nodeupgrade.recent" .'


def _with_labels(value: str, *, indent: int) -> str:
    """Return the labels that a pattern has found, which stay as they are, and those of a value."""
    merged = f"merge (fromYaml `\\1`) ({value} | default dict)"
    return f"{' ' * (indent - 2)}labels: {{{{- {merged} | toYaml | nindent {indent} }}}}"


def _text(value: str) -> str:
    """Return a value as text, which is empty if it is null or an older chart did not have it."""
    path = f".Values.{value}"
    return f'{{{{ ternary "" (toString {path}) (kindIs "invalid" {path}) | quote }}}}'


def _further(value: str, *, indent: int) -> str:
    """Return the items of a value, which are added to those of a manifest."""
    return f"{' ' * indent}{{{{- with .Values.{value} }}}}{{{{- toYaml . | nindent {indent} }}}}{{{{- end }}}}\n"


def _with_machines(pattern: str, lines: str) -> Replacement:
    """Add lines for the extension of Cluster API where Machines are in a cluster of their own."""
    value = ".Values.clusterAPI.machinesKubeconfigSecret"
    return Replacement(pattern, f"\\g<0>          {{{{- with {value} }}}}\n{lines}\n          {{{{- end }}}}\n")


def _instead(field: str, *, indent: int) -> Replacement:
    """Let a value decide a field of the pod or container, which stays as it is if an older chart did not have it."""
    value = "podSecurityContext" if indent == _OF_THE_POD else field
    space = " " * indent
    chosen = f".Values.{value} | default (fromYaml `\n\\1`)"
    if indent == _OF_THE_POD:
        chosen = f'omit ({chosen}) (ternary "" "seccompProfile" (eq ({_RECENT}) "true"))'
    chosen = f"{chosen} | toYaml | nindent {indent + 2}"
    return Replacement(rf"^{space}{field}:\n((?:{space}  .*\n)+)", f"{space}{field}: {{{{- {chosen} }}}}\n")


_OF_THE_POD, _OF_THE_CONTAINER = 6, 10
"""How far their fields are indented in a Deployment."""

_MONITORING_LABELS = Replacement(r"^  labels: (\{.*\})$", _with_labels(".Values.monitoring.labels", indent=4))
_BY_KIND = {
    "Deployment": (
        Replacement(
            r"^  replicas: \d+$",
            "  replicas: {{ .Values.replicas }}\n"
            '  {{- if not (kindIs "invalid" .Values.revisionHistoryLimit) }}\n'
            "  revisionHistoryLimit: {{ .Values.revisionHistoryLimit }}\n"
            "  {{- end }}",
        ),
        _instead("securityContext", indent=_OF_THE_POD),
        _instead("securityContext", indent=_OF_THE_CONTAINER),
        _instead("livenessProbe", indent=_OF_THE_CONTAINER),
        _instead("readinessProbe", indent=_OF_THE_CONTAINER),
        Replacement(r"^      nodeSelector: .*$", "      nodeSelector: {{- toYaml .Values.nodeSelector | nindent 8 }}"),
        Replacement(r"^      labels: (\{.*\})$", _with_labels(".Values.podLabels", indent=8)),
        Replacement(r"^      annotations: .*$", "      annotations: {{- toYaml .Values.podAnnotations | nindent 8 }}"),
        Replacement(r"^      priorityClassName: .*$", "      priorityClassName: {{ .Values.priorityClassName }}"),
        Replacement(
            r"^      topologySpreadConstraints:\n(?:        .*\n)+",
            f"      {{{{- if and ({_RECENT}) .Values.topologySpreadConstraints }}}}\n"
            "      topologySpreadConstraints: {{- toYaml .Values.topologySpreadConstraints | nindent 8 }}\n"
            "      {{- end }}\n"
            "      {{- with .Values.affinity }}\n"
            "      affinity: {{- toYaml . | nindent 8 }}\n"
            "      {{- end }}\n",
        ),
        Replacement(
            r"^      tolerations:\n(?:        - .*\n)+",
            "      tolerations: {{- toYaml .Values.tolerations | nindent 8 }}\n",
        ),
        Replacement(r"^          image: nodeupgrade$", f"          image: {_IMAGE}"),
        Replacement(r"^          env:\n(?:            .*\n)+", f"\\g<0>{_further('env', indent=12)}"),
        Replacement(r"^          volumeMounts:\n(?:            .*\n)+", f"\\g<0>{_further('volumeMounts', indent=12)}"),
        Replacement(
            r"^          configMap: \{name: nodeupgrade-allowed\}\n",
            '          configMap: {name: {{ include "nodeupgrade.allowed" . }}}\n' + _further("volumes", indent=8),
        ),
        Replacement(r"^          imagePullPolicy: .*$", _PULL_POLICY),
        Replacement(
            r"^            - \{name: MAX_IN_FLIGHT, value: ''\}$",
            f"            - {{name: MAX_IN_FLIGHT, value: {_text('maxInFlight')}}}",
        ),
        Replacement(
            r"^            - \{name: MAX_UNAVAILABLE, value: ''\}$",
            f"            - {{name: MAX_UNAVAILABLE, value: {_text('maxUnavailable')}}}",
        ),
        Replacement(
            r"^          resources:\n(?:            .*\n)+?(?=          \S)",
            "          resources: {{- toYaml .Values.resources | nindent 12 }}\n",
        ),
    ),
    "ServiceMonitor": (
        _MONITORING_LABELS,
        Replacement(r"interval: 15s", 'interval: {{ .Values.monitoring.interval | default "15s" }}'),
    ),
    "PrometheusRule": (_MONITORING_LABELS,),
    "DaemonSet": (
        Replacement(r"^          image: nodeupgrade$", f"          image: {_IMAGE}", times=2),
        Replacement(r"^          imagePullPolicy: .*$", _PULL_POLICY, times=2),
    ),
}
_BY_NAME = {
    ("Deployment", "nodeupgrade-capi"): (
        Replacement(r"^          image: nodeupgrade$", f"          image: {_IMAGE}"),
        Replacement(r"^          imagePullPolicy: .*$", _PULL_POLICY),
        _with_machines(
            r"^          command: .*\n",
            "          env:\n"
            "            - {name: MACHINES_KUBECONFIG, value: /etc/nodeupgrade-capi-machines/kubeconfig}",
        ),
        _with_machines(
            r"^          volumeMounts:\n(?:            .*\n)+",
            "            - {name: machines, mountPath: /etc/nodeupgrade-capi-machines, readOnly: true}",
        ),
        _with_machines(
            r"^          secret: \{secretName: nodeupgrade-capi\}\n",
            "        - name: machines\n          secret: {secretName: {{ . | quote }}}",
        ),
    ),
}
"""Objects that differ from others of their kind."""
_RUNBOOK = ("runbook_url: docs/", "runbook_url: {{ .Values.monitoring.runbooks }}docs/")
_DASHBOARD = "nodeupgrade-dashboard"
_DASHBOARD_DATA = 'data:\n  nodeupgrade.json: {{ .Files.Get "files/dashboard.json" | toJson }}\n'
_OPERATOR = "nodeupgrade-operator"
_ANNOTATED = (
    "metadata:\n",
    (
        "metadata:\n  {{- if .Values.serviceAccount }}{{- with .Values.serviceAccount.annotations }}\n"
        "  annotations: {{- toYaml . | nindent 4 }}\n  {{- end }}{{- end }}\n"
    ),
)
_PULL_SECRETS = "{{- with .Values.imagePullSecrets }}\nimagePullSecrets: {{- toYaml . | nindent 2 }}\n{{- end }}\n"


def template(source: str, text: str, *, condition: str = "") -> str:
    """Return the template of one manifest file.

    Args:
        source: path of the manifest, for the hint and for errors.
        text: content of the manifest.
        condition: pipeline that decides whether the file is rendered at all, its policies too; empty for always, then
            policies where `admissionPolicies` says so.

    Raises:
        ChartError: a place that a value decides is missing, or there more than once.
    """
    documents = re.split(r"^---\n", text, flags=re.MULTILINE)
    body = "---\n".join(_document(source, document, condition) for document in documents)
    return HINT % source + (_conditional(condition, body) if condition else body)


def _document(source: str, text: str, condition: str) -> str:
    manifest = yaml.safe_load(text)
    escaped = text.replace("{{", '{{ "{{" }}')
    if not condition and (manifest["kind"] in POLICY_KINDS or _name(manifest) == ("ConfigMap", GUARD)):
        return _conditional('include "nodeupgrade.admissionPolicies" .', escaped)
    if manifest["kind"] == "PodDisruptionBudget":
        return _conditional(_RECENT, escaped)
    if _name(manifest) == ("ConfigMap", _DASHBOARD):
        return escaped.rstrip("\n") + "\n" + _DASHBOARD_DATA
    if manifest["kind"] == "ServiceAccount":
        annotated = escaped.replace(*_ANNOTATED) if manifest["metadata"]["name"] == _OPERATOR else escaped
        return annotated.rstrip("\n") + "\n" + _PULL_SECRETS
    places = _BY_NAME.get(_name(manifest)) or _BY_KIND.get(manifest["kind"])
    return escaped if places is None else _replaced(source, escaped.replace(*_RUNBOOK), places)


def _name(manifest: Json) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _conditional(condition: str, text: str) -> str:
    end = "" if text.endswith("\n") else "\n"
    return f"{{{{- if {condition} }}}}\n{text}{end}{{{{- end }}}}\n"


def _replaced(source: str, text: str, places: tuple[Replacement, ...]) -> str:
    for place in places:
        text, found = re.subn(place.pattern, place.template, text, flags=re.MULTILINE)
        if found != place.times:
            raise ChartError(f"{source}: {place.pattern!r} is there {found} times; adapt tools/chart/templates.py")
    return text
