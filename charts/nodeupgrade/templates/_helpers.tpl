{{- /* The image of the operator and of its agents. */ -}}
{{- define "nodeupgrade.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* "true" if the ValidatingAdmissionPolicies are installed, else empty. */ -}}
{{- define "nodeupgrade.admissionPolicies" -}}
{{- $known := semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version -}}
{{- if or (eq .Values.admissionPolicies "Install") (and $known (eq .Values.admissionPolicies "Auto")) -}}true{{- end -}}
{{- end -}}

{{- /* "true" if the CustomResourceDefinitions have rules in CEL, else empty. */ -}}
{{- define "nodeupgrade.validationRules" -}}
{{- $known := semverCompare ">=1.25.0-0" .Capabilities.KubeVersion.Version -}}
{{- $wanted := .Values.crds.validationRules -}}
{{- if or (eq $wanted "Install") (and $known (eq $wanted "Auto")) -}}true{{- end -}}
{{- end -}}

{{- /* "true" from Kubernetes 1.25 on, else empty: what overlays/without-cel leaves out beside rules and policies. */ -}}
{{- define "nodeupgrade.recent" -}}
{{- if semverCompare ">=1.25.0-0" .Capabilities.KubeVersion.Version -}}true{{- end -}}
{{- end -}}

{{- /* The ConfigMap of what is allowed: a new name whenever its content changes, so that the operator is restarted. */ -}}
{{- define "nodeupgrade.allowed" -}}
nodeupgrade-allowed-{{ .Values.allowed | toYaml | sha256sum | trunc 10 }}
{{- end -}}
