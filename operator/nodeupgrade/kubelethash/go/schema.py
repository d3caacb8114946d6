"""The container types of the Kubernetes core API, in one table for every kubelet from 1.5 to 1.30.

Each row has the Go field, Go type, JSON tag and first minor, in Go's field order, from `types.go` of core/v1. Up to
1.30 fields were only ever added, so the types of a minor are the rows that are not newer. From 1.31 on the kubelet
hashes only name and image, so the table needs no further rows.
"""

from dataclasses import dataclass
from functools import cache

from ..changes import OLDEST_MINOR, SIDECARS

CONTAINER = "Container"


@dataclass(frozen=True, slots=True)
class StructField:
    """One field of a Go struct."""

    name: str  # the Go field name; for an embedded struct, the name that Go prints for it
    type: str  # the Go type without its package, such as `*Probe`, `[]EnvVar` or `ResourceList`
    key: str  # the JSON key; empty for an embedded struct, whose fields appear in its place
    omitempty: bool  # whether Go omits the zero value from the JSON
    since: int  # the first minor with this field


def _field(name: str, type_: str, tag: str, since: int = OLDEST_MINOR) -> StructField:
    """Make a row of the table; the tag is the JSON key, with a `?` for omitempty, or empty if embedded."""
    return StructField(name, type_, tag.removesuffix("?"), tag.endswith("?"), since)


_HANDLER = (
    _field("Exec", "*ExecAction", "exec?"),
    _field("HTTPGet", "*HTTPGetAction", "httpGet?"),
    _field("TCPSocket", "*TCPSocketAction", "tcpSocket?"),
)

STRUCTS: dict[str, tuple[StructField, ...]] = {
    CONTAINER: (
        _field("Name", "string", "name"),
        _field("Image", "string", "image?"),
        _field("Command", "[]string", "command?"),
        _field("Args", "[]string", "args?"),
        _field("WorkingDir", "string", "workingDir?"),
        _field("Ports", "[]ContainerPort", "ports?"),
        _field("EnvFrom", "[]EnvFromSource", "envFrom?", 6),
        _field("Env", "[]EnvVar", "env?"),
        _field("Resources", "ResourceRequirements", "resources?"),
        _field("ResizePolicy", "[]ContainerResizePolicy", "resizePolicy?", 27),
        _field("RestartPolicy", "*ContainerRestartPolicy", "restartPolicy?", SIDECARS.first),
        _field("VolumeMounts", "[]VolumeMount", "volumeMounts?"),
        _field("VolumeDevices", "[]VolumeDevice", "volumeDevices?", 9),
        _field("LivenessProbe", "*Probe", "livenessProbe?"),
        _field("ReadinessProbe", "*Probe", "readinessProbe?"),
        _field("StartupProbe", "*Probe", "startupProbe?", 16),
        _field("Lifecycle", "*Lifecycle", "lifecycle?"),
        _field("TerminationMessagePath", "string", "terminationMessagePath?"),
        _field("TerminationMessagePolicy", "TerminationMessagePolicy", "terminationMessagePolicy?", 6),
        _field("ImagePullPolicy", "PullPolicy", "imagePullPolicy?"),
        _field("SecurityContext", "*SecurityContext", "securityContext?"),
        _field("Stdin", "bool", "stdin?"),
        _field("StdinOnce", "bool", "stdinOnce?"),
        _field("TTY", "bool", "tty?"),
    ),
    "ContainerPort": (
        _field("Name", "string", "name?"),
        _field("HostPort", "int32", "hostPort?"),
        _field("ContainerPort", "int32", "containerPort"),
        _field("Protocol", "Protocol", "protocol?"),
        _field("HostIP", "string", "hostIP?"),
    ),
    "EnvFromSource": (
        _field("Prefix", "string", "prefix?"),
        _field("ConfigMapRef", "*ConfigMapEnvSource", "configMapRef?"),
        _field("SecretRef", "*SecretEnvSource", "secretRef?"),
    ),
    "ConfigMapEnvSource": (
        _field("LocalObjectReference", "LocalObjectReference", ""),
        _field("Optional", "*bool", "optional?"),
    ),
    "SecretEnvSource": (
        _field("LocalObjectReference", "LocalObjectReference", ""),
        _field("Optional", "*bool", "optional?"),
    ),
    "EnvVar": (
        _field("Name", "string", "name"),
        _field("Value", "string", "value?"),
        _field("ValueFrom", "*EnvVarSource", "valueFrom?"),
    ),
    "EnvVarSource": (
        _field("FieldRef", "*ObjectFieldSelector", "fieldRef?"),
        _field("ResourceFieldRef", "*ResourceFieldSelector", "resourceFieldRef?"),
        _field("ConfigMapKeyRef", "*ConfigMapKeySelector", "configMapKeyRef?"),
        _field("SecretKeyRef", "*SecretKeySelector", "secretKeyRef?"),
    ),
    "ObjectFieldSelector": (
        _field("APIVersion", "string", "apiVersion?"),
        _field("FieldPath", "string", "fieldPath"),
    ),
    "ResourceFieldSelector": (
        _field("ContainerName", "string", "containerName?"),
        _field("Resource", "string", "resource"),
        _field("Divisor", "Quantity", "divisor?"),
    ),
    "ConfigMapKeySelector": (
        _field("LocalObjectReference", "LocalObjectReference", ""),
        _field("Key", "string", "key"),
        _field("Optional", "*bool", "optional?", 6),
    ),
    "SecretKeySelector": (
        _field("LocalObjectReference", "LocalObjectReference", ""),
        _field("Key", "string", "key"),
        _field("Optional", "*bool", "optional?", 6),
    ),
    "LocalObjectReference": (_field("Name", "string", "name?"),),
    "ResourceRequirements": (
        _field("Limits", "ResourceList", "limits?"),
        _field("Requests", "ResourceList", "requests?"),
        _field("Claims", "[]ResourceClaim", "claims?", 26),
    ),
    "ResourceClaim": (_field("Name", "string", "name"),),
    "ContainerResizePolicy": (
        _field("ResourceName", "ResourceName", "resourceName"),
        _field("RestartPolicy", "ResourceResizeRestartPolicy", "restartPolicy"),
    ),
    "VolumeMount": (
        _field("Name", "string", "name"),
        _field("ReadOnly", "bool", "readOnly?"),
        _field("RecursiveReadOnly", "*RecursiveReadOnlyMode", "recursiveReadOnly?", 30),
        _field("MountPath", "string", "mountPath"),
        _field("SubPath", "string", "subPath?"),
        _field("MountPropagation", "*MountPropagationMode", "mountPropagation?", 8),
        _field("SubPathExpr", "string", "subPathExpr?", 14),
    ),
    "VolumeDevice": (
        _field("Name", "string", "name"),
        _field("DevicePath", "string", "devicePath"),
    ),
    "Probe": (
        _field("Handler", "ProbeHandler", ""),
        _field("InitialDelaySeconds", "int32", "initialDelaySeconds?"),
        _field("TimeoutSeconds", "int32", "timeoutSeconds?"),
        _field("PeriodSeconds", "int32", "periodSeconds?"),
        _field("SuccessThreshold", "int32", "successThreshold?"),
        _field("FailureThreshold", "int32", "failureThreshold?"),
        _field("TerminationGracePeriodSeconds", "*int64", "terminationGracePeriodSeconds?", 21),
    ),
    "Lifecycle": (
        _field("PostStart", "*LifecycleHandler", "postStart?"),
        _field("PreStop", "*LifecycleHandler", "preStop?"),
    ),
    "ProbeHandler": (*_HANDLER, _field("GRPC", "*GRPCAction", "grpc?", 23)),
    "LifecycleHandler": (*_HANDLER, _field("Sleep", "*SleepAction", "sleep?", 29)),
    "ExecAction": (_field("Command", "[]string", "command?"),),
    "HTTPGetAction": (
        _field("Path", "string", "path?"),
        _field("Port", "IntOrString", "port"),
        _field("Host", "string", "host?"),
        _field("Scheme", "URIScheme", "scheme?"),
        _field("HTTPHeaders", "[]HTTPHeader", "httpHeaders?"),
    ),
    "HTTPHeader": (
        _field("Name", "string", "name"),
        _field("Value", "string", "value"),
    ),
    "TCPSocketAction": (
        _field("Port", "IntOrString", "port"),
        _field("Host", "string", "host?", 7),
    ),
    "GRPCAction": (
        _field("Port", "int32", "port"),
        _field("Service", "*string", "service"),
    ),
    "SleepAction": (_field("Seconds", "int64", "seconds"),),
    "SecurityContext": (
        _field("Capabilities", "*Capabilities", "capabilities?"),
        _field("Privileged", "*bool", "privileged?"),
        _field("SELinuxOptions", "*SELinuxOptions", "seLinuxOptions?"),
        _field("WindowsOptions", "*WindowsSecurityContextOptions", "windowsOptions?", 15),
        _field("RunAsUser", "*int64", "runAsUser?"),
        _field("RunAsGroup", "*int64", "runAsGroup?", 10),
        _field("RunAsNonRoot", "*bool", "runAsNonRoot?"),
        _field("ReadOnlyRootFilesystem", "*bool", "readOnlyRootFilesystem?"),
        _field("AllowPrivilegeEscalation", "*bool", "allowPrivilegeEscalation?", 8),
        _field("ProcMount", "*ProcMountType", "procMount?", 12),
        _field("SeccompProfile", "*SeccompProfile", "seccompProfile?", 19),
        _field("AppArmorProfile", "*AppArmorProfile", "appArmorProfile?", 30),
    ),
    "Capabilities": (
        _field("Add", "[]Capability", "add?"),
        _field("Drop", "[]Capability", "drop?"),
    ),
    "SELinuxOptions": (
        _field("User", "string", "user?"),
        _field("Role", "string", "role?"),
        _field("Type", "string", "type?"),
        _field("Level", "string", "level?"),
    ),
    "WindowsSecurityContextOptions": (
        _field("GMSACredentialSpecName", "*string", "gmsaCredentialSpecName?"),
        _field("GMSACredentialSpec", "*string", "gmsaCredentialSpec?"),
        _field("RunAsUserName", "*string", "runAsUserName?", 16),
        _field("HostProcess", "*bool", "hostProcess?", 22),
    ),
    "SeccompProfile": (
        _field("Type", "SeccompProfileType", "type"),
        _field("LocalhostProfile", "*string", "localhostProfile?"),
    ),
    "AppArmorProfile": (
        _field("Type", "AppArmorProfileType", "type"),
        _field("LocalhostProfile", "*string", "localhostProfile?"),
    ),
}


@cache
def fields_of(struct: str, minor: int) -> tuple[StructField, ...]:
    """Return the fields of a struct in a given minor, in Go's order."""
    return tuple(field for field in STRUCTS[struct] if field.since <= minor)
