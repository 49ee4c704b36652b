{{/* What everything of a release is called; cluster-wide objects carry the namespace too, so that two releases do not meet. */}}
{{- define "dds.name" -}}
{{- coalesce .Values.fullnameOverride .Values.nameOverride .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "dds.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "dds.name" .) | trunc 60 | trimSuffix "-" -}}
{{- end }}

{{/* The three parts, as what all parts have alike calls them (_part.tpl). */}}
{{- define "dds.scalerName" -}}
{{- include "dds.name" . -}}
{{- end }}

{{- define "dds.scalerClusterName" -}}
{{- include "dds.clusterName" . -}}
{{- end }}

{{- define "dds.labels" -}}
{{- include "dds.partLabels" (dict "root" . "part" "scaler") -}}
{{- end }}

{{- define "dds.publisherLabels" -}}
{{- include "dds.partLabels" (dict "root" . "part" "publisher") -}}
{{- end }}

{{- define "dds.autoscalerLabels" -}}
{{- include "dds.partLabels" (dict "root" . "part" "autoscaler") -}}
{{- end }}

{{/* ServiceAccounts, and the users that the API server sees. */}}
{{- define "dds.account" -}}
{{- .Values.serviceAccount.name | default (include "dds.name" .) -}}
{{- end }}

{{- define "dds.user" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dds.account" .) -}}
{{- end }}

{{/* The publisher's is the scaler's where both are one process. */}}
{{- define "dds.publisherAccount" -}}
{{- if .Values.publisher.inProcess }}{{ include "dds.account" . }}{{ else }}{{ include "dds.partAccount" (dict "root" . "part" "publisher") }}{{ end -}}
{{- end }}

{{- define "dds.publisherUser" -}}
{{- printf "system:serviceaccount:%s:%s" .Release.Namespace (include "dds.publisherAccount" .) -}}
{{- end }}

{{- define "dds.autoscalerAccount" -}}
{{- include "dds.partAccount" (dict "root" . "part" "autoscaler") -}}
{{- end }}

{{/* -- the publisher -------------------------------------------------------------------------------------------------- */}}

{{/* Whether it has a Deployment of its own. */}}
{{- define "dds.publisherAlone" -}}
{{- if and .Values.publisher.enabled (not .Values.publisher.inProcess) }}yes{{ end -}}
{{- end }}

{{- define "dds.publisherName" -}}
{{- printf "%s-publisher" (include "dds.name" . | trunc 50 | trimSuffix "-") -}}
{{- end }}

{{- define "dds.publisherClusterName" -}}
{{- printf "%s-publisher" (include "dds.clusterName" . | trunc 50 | trimSuffix "-") -}}
{{- end }}

{{/* -- the autoscaler ------------------------------------------------------------------------------------------------- */}}

{{- define "dds.autoscalerName" -}}
{{- printf "%s-autoscaler" (include "dds.name" . | trunc 50 | trimSuffix "-") -}}
{{- end }}

{{- define "dds.autoscalerClusterName" -}}
{{- printf "%s-autoscaler" (include "dds.clusterName" . | trunc 50 | trimSuffix "-") -}}
{{- end }}

{{/* Whether its servers are Machines of this very cluster. */}}
{{- define "dds.clusterApiHere" -}}
{{- with .Values.autoscaler.machines }}{{ if and (eq .kind "cluster-api") (not .kubeconfig) }}yes{{ end }}{{ end -}}
{{- end }}

{{/* -- the fabric ------------------------------------------------------------------------------------------------------ */}}

{{/* The fabric, for `dds publish`, `dds serve --publish` and `dds doctor` alike. No credential is among it: those are files. */}}
{{- define "dds.fabricEnvironment" -}}
{{- with .Values.publisher.fabric -}}
- name: DDS_FABRIC
  value: {{ .api }}
{{- if eq .api "file" }}
- name: DDS_INVENTORY
  value: /etc/dds-fabric/inventory.yaml
{{- else }}
- name: DDS_FABRIC_ENDPOINT
  value: {{ .endpoint | quote }}
{{- end }}
{{- if has .api (list "fm" "cm") }}
- name: DDS_TENANT_ID
  value: {{ .tenantId | quote }}
- name: DDS_CREDENTIALS_FOLDER
  value: /etc/dds-fabric
{{- end }}
{{- if eq .api "cm" }}
- name: DDS_CLUSTER_ID
  value: {{ .clusterId | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dds.fabricMounts" -}}
- name: publish-policy
  mountPath: /etc/dds-publish
  readOnly: true
{{- if ne .Values.publisher.fabric.api "nec" }}
- name: fabric
  mountPath: /etc/dds-fabric
  readOnly: true
{{- end }}
{{- end }}

{{- define "dds.fabricVolumes" -}}
- name: publish-policy
  configMap:
    name: {{ include "dds.publisherName" . }}-policy
{{- if eq .Values.publisher.fabric.api "file" }}
- name: fabric
  configMap:
    name: {{ include "dds.publisherName" . }}-inventory
{{- else if ne .Values.publisher.fabric.api "nec" }}
# A file for each of the credentials; a Secret that is changed is read again without a restart.
- name: fabric
  secret:
    secretName: {{ .Values.publisher.fabric.credentialsSecret }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* The way to the fabric's manager out of the publisher's pod. */}}
{{- define "dds.fabricEgress" -}}
{{- if ne .Values.publisher.fabric.api "file" -}}
{{- include "dds.managerEgress" (dict "root" . "endpoint" .Values.publisher.fabric.endpoint) -}}
{{- end }}
{{- end }}

{{/* The port of a URL. */}}
{{- define "dds.portOf" -}}
{{- $at := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $at.host) | default (ternary "443" "80" (eq $at.scheme "https")) -}}
{{- end }}

{{- define "dds.managerEgress" -}}
# The fabric's manager.
- ports:
    - {port: {{ include "dds.portOf" .endpoint }}, protocol: TCP}
  {{- with .root.Values.networkPolicy.fabricTo }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* -- what all pods have ---------------------------------------------------------------------------------------------- */}}

{{- define "dds.image" -}}
{{- with .Values.image -}}
image: "{{ .repository }}{{ with .digest }}@{{ . }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}"
imagePullPolicy: {{ .pullPolicy }}
{{- end }}
{{- end }}

{{- define "dds.strategy" -}}
{{- if eq .Values.log.kind "sqlite" -}}
# The file has one writer, and its volume mostly one node: the old pod goes before the new one comes.
strategy:
  type: Recreate
{{- else -}}
strategy:
  type: RollingUpdate
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- end }}
{{- end }}

{{- define "dds.metricsArguments" -}}
{{- if .Values.metrics.enabled -}}
- --metrics-bind-address=:{{ .Values.metrics.port }}
{{- if .Values.metrics.secure }}
- --metrics-secure
{{- end }}
{{- else -}}
- --metrics-bind-address=0
{{- end }}
{{- if .Values.metrics.certSecretName }}
- --metrics-cert-file=/etc/dds-metrics/tls.crt
- --metrics-key-file=/etc/dds-metrics/tls.key
{{- end }}
{{- end }}

{{/* The way to the API server is direct, the one to a manager over https goes through the proxy. */}}
{{- define "dds.outsideEnvironment" -}}
{{- with .Values.proxy -}}
{{- if .url -}}
- name: HTTPS_PROXY
  value: {{ .url | quote }}
- name: NO_PROXY
  value: {{ prepend .noProxy "$(KUBERNETES_SERVICE_HOST)" | join "," | quote }}
{{- end }}
{{- end }}
{{- if .Values.caBundle.configMap }}
- name: SSL_CERT_FILE
  value: /etc/dds-ca/{{ .Values.caBundle.key }}
{{- end }}
{{- end }}

{{/* In the environment and not among the arguments, which everybody who may read pods can see. */}}
{{- define "dds.databaseEnvironment" -}}
- name: DDS_LOG
  valueFrom:
    secretKeyRef:
      name: {{ .Values.log.postgres.secretName }}
      key: {{ .Values.log.postgres.secretKey }}
{{- end }}

{{- define "dds.commonMounts" -}}
- name: scratch
  mountPath: /tmp
{{- if eq .Values.log.kind "sqlite" }}
- name: log
  mountPath: /var/lib/dds
{{- end }}
{{- if .Values.metrics.certSecretName }}
- name: metrics-certificate
  mountPath: /etc/dds-metrics
  readOnly: true
{{- end }}
{{- if .Values.caBundle.configMap }}
- name: ca-bundle
  mountPath: /etc/dds-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "dds.commonVolumes" -}}
- name: scratch
  emptyDir:
    sizeLimit: 64Mi
{{- if .Values.metrics.certSecretName }}
- name: metrics-certificate
  secret:
    secretName: {{ .Values.metrics.certSecretName }}
    defaultMode: 0440
{{- end }}
{{- if .Values.caBundle.configMap }}
- name: ca-bundle
  configMap:
    name: {{ .Values.caBundle.configMap }}
{{- end }}
{{- end }}

{{- define "dds.placement" -}}
{{- $parts := dict -}}
{{- range $key := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "affinity" -}}
{{- with get $.Values $key }}{{ $_ := set $parts $key . }}{{ end -}}
{{- end -}}
{{- with $parts }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* Who may reach a pod; what comes after belongs to the list. */}}
{{- define "dds.ingress" -}}
ingress:
  # The kubelet's probes come from the node, which no peer can name everywhere.
  - ports:
      - port: health
  {{- if .Values.metrics.enabled }}
  - ports:
      - port: metrics
    {{- with .Values.networkPolicy.metricsFrom }}
    from:
      {{- toYaml . | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* Whom it may reach, in the same way. */}}
{{- define "dds.egress" -}}
egress:
  # Names.
  - ports:
      - {port: 53, protocol: UDP}
      - {port: 53, protocol: TCP}
  # The API server, which is no pod; nothing but its ports can be named.
  - ports:
      {{- range .Values.networkPolicy.apiServerPorts }}
      - {port: {{ . }}, protocol: TCP}
      {{- end }}
  {{- if eq .Values.log.kind "postgres" }}
  - ports:
      - {port: {{ .Values.log.postgres.port }}, protocol: TCP}
    {{- with .Values.networkPolicy.postgresTo }}
    to:
      {{- toYaml . | nindent 8 }}
    {{- end }}
  {{- end }}
  {{- with .Values.proxy.url }}
  - ports:
      - {port: {{ include "dds.portOf" . }}, protocol: TCP}
    {{- with $.Values.networkPolicy.proxyTo }}
    to:
      {{- toYaml . | nindent 8 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* How the metrics of the Service `.service` are read; `.root` is the chart's. */}}
{{- define "dds.scrape" -}}
- port: metrics
  path: /metrics
  interval: {{ .root.Values.metrics.serviceMonitor.interval }}
  {{- if .root.Values.metrics.secure }}
  scheme: https
  bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
  {{- end }}
  {{- if or .root.Values.metrics.secure .root.Values.metrics.certSecretName }}
  tlsConfig:
    {{- if .root.Values.metrics.certSecretName }}
    serverName: {{ .service }}.{{ .root.Release.Namespace }}.svc
    ca:
      secret:
        name: {{ .root.Values.metrics.certSecretName }}
        key: ca.crt
    {{- else }}
    insecureSkipVerify: true  # the certificate is made at start, nobody can know it
    {{- end }}
  {{- end }}
{{- end }}
