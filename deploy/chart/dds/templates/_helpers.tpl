{{/* What everything of a release is called; cluster-wide objects carry the namespace too, so that two releases do not meet. */}}
{{- define "dds.name" -}}
{{- .Values.nameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "dds.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "dds.name" .) | trunc 60 | trimSuffix "-" -}}
{{- end }}

{{- define "dds.selector" -}}
app.kubernetes.io/name: dds
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dds.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "dds.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* The user that the API server sees. */}}
{{- define "dds.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dds.name" .) -}}
{{- end }}
