{{/* What scaler, publisher and autoscaler have alike. Each is given `root`, the chart's, and `part`, the name of the component, which is
that of its helpers, too, and of its values, but for the scaler's, which are the chart's own. */}}

{{- define "dds.partName" -}}
{{- include (printf "dds.%sName" .part) .root -}}
{{- end }}

{{- define "dds.partAccount" -}}
{{- if eq .part "scaler" }}{{ include "dds.account" .root }}{{ else -}}
{{- (get .root.Values .part).serviceAccount.name | default (include "dds.partName" .) -}}
{{- end }}
{{- end }}

{{- define "dds.partLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{ include "dds.partSelector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dds.partSelector" -}}
app.kubernetes.io/name: dds{{ if ne .part "scaler" }}-{{ .part }}{{ end }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* ServiceAccount, volume of the log, disruption budget. */}}
{{- define "dds.partAround" -}}
{{- $scaler := eq .part "scaler" }}
{{- $values := ternary .root.Values (get .root.Values .part) $scaler }}
{{- $account := $values.serviceAccount }}
{{- if $account.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "dds.partAccount" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
  {{- with merge (dict) $account.annotations .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The pod asks for the token itself; nothing else in the namespace gets one by default.
automountServiceAccountToken: false
{{- end }}
{{- if and (eq .root.Values.log.kind "sqlite") (not (ternary .root.Values.log.sqlite $values $scaler).existingClaim) }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "dds.partName" . }}-log
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
  annotations:
    # The log is the only truth: it outlives the release.
    helm.sh/resource-policy: keep
spec:
  accessModes: [ReadWriteOnce]
  {{- with .root.Values.log.sqlite.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ ternary .root.Values.log.sqlite.size $values.logSize $scaler }}
{{- end }}
{{- if and .root.Values.podDisruptionBudget.enabled (gt (int $values.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "dds.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "dds.partSelector" . | nindent 6 }}
{{- end }}
{{- end }}

{{/* The Deployment. Besides: `command` of dds, and its own `arguments`, `leases`, `ports`, `environment`, `mounts` and `volumes` as texts. */}}
{{- define "dds.partDeployment" -}}
{{- $scaler := eq .part "scaler" }}
{{- $values := ternary .root.Values (get .root.Values .part) $scaler }}
{{- $sqlite := eq .root.Values.log.kind "sqlite" }}
{{- if and $sqlite (gt (int $values.replicas) 1) }}
{{- fail (printf "%sreplicas: %v needs log.kind postgres: a SQLite file has one writer" (ternary "" (print .part ".") $scaler) $values.replicas) }}
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "dds.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: 3
  {{- include "dds.strategy" .root | nindent 2 }}
  selector:
    matchLabels:
      {{- include "dds.partSelector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "dds.partSelector" . | nindent 8 }}
        {{- with merge (dict) .root.Values.podLabels .root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: dds
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "dds.partAccount" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      # A stop drains what is on its way to the API server and gives the Lease back; that takes up to 30 s.
      terminationGracePeriodSeconds: 40
      securityContext:
        {{- toYaml .root.Values.podSecurityContext | nindent 8 }}
      {{- with include "dds.placement" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- if or .root.Values.topologySpreadConstraints (gt (int $values.replicas) 1) }}
      topologySpreadConstraints:
        {{- $own := dict "matchLabels" (include "dds.partSelector" . | fromYaml) }}
        {{- $spread := dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway" }}
        {{- range .root.Values.topologySpreadConstraints | default (list $spread) }}
        - {{- toYaml (set (deepCopy .) "labelSelector" (.labelSelector | default $own)) | nindent 10 }}
        {{- end }}
      {{- end }}
      containers:
        - name: dds
          {{- include "dds.image" .root | nindent 10 }}
          # Why it ended, such as a log that a newer dds has written, is in the pod's status.
          terminationMessagePolicy: FallbackToLogsOnError
          args:
            - {{ .command }}
            {{- if .root.Values.log.migrate }}
            - --migrate
            {{- end }}
            - --checkpoint-events={{ int .root.Values.log.checkpointEvents }}
            {{- if .root.Values.log.archive.enabled }}
            - --archive-folder=/var/lib/dds/archive
            {{- end }}
            - --cluster-name={{ .root.Values.clusterName }}
            - --namespace={{ .root.Values.fabric.configNamespace }}
            {{- .arguments | nindent 12 }}
            {{- if .root.Values.leaderElection.enabled }}
            - --leader-elect
            - --lease-namespace={{ .root.Release.Namespace }}
            - --lease-name={{ (ternary .root.Values.leaderElection $values $scaler).leaseName }}
            {{- with .leases }}{{ . | nindent 12 }}{{ end }}
            {{- end }}
            - --health-probe-bind-address=:{{ .root.Values.health.port }}
            {{- include "dds.metricsArguments" .root | nindent 12 }}
            - --log-level={{ .root.Values.logging.level }}
            - --log-format={{ .root.Values.logging.format }}
            {{- with $values.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            # For `dds doctor` and every other command that is run in this pod, what else the arguments say.
            {{- if not $scaler }}
            - name: DDS_COMPONENT
              value: {{ .part }}
            {{- end }}
            - name: DDS_CLUSTER_NAME
              value: {{ .root.Values.clusterName | quote }}
            - name: DDS_LOG_NAME
              value: {{ printf "%s/%s" .root.Values.clusterName .part | quote }}
            - name: DDS_NAMESPACE
              value: {{ .root.Values.fabric.configNamespace | quote }}
            {{- if $sqlite }}
            - name: DDS_LOG
              value: sqlite:////var/lib/dds/{{ .part }}.sqlite3
            {{- else }}
            {{- include "dds.databaseEnvironment" .root | nindent 12 }}
            {{- end }}
            {{- .environment | nindent 12 }}
            {{- with include "dds.outsideEnvironment" .root | trim }}{{ . | nindent 12 }}{{ end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: health
              containerPort: {{ .root.Values.health.port }}
            {{- if .root.Values.metrics.enabled }}
            - name: metrics
              containerPort: {{ .root.Values.metrics.port }}
            {{- end }}
            {{- with .ports }}{{ . | nindent 12 }}{{ end }}
          {{- range $name, $path := dict "startup" "livez" "liveness" "livez" "readiness" "readyz" }}
          {{ $name }}Probe:
            httpGet: {path: /{{ $path }}, port: health}
            {{- toYaml (get $.root.Values.probes $name) | nindent 12 }}
          {{- end }}
          securityContext:
            {{- toYaml .root.Values.securityContext | nindent 12 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            {{- .mounts | nindent 12 }}
            {{- include "dds.commonMounts" .root | nindent 12 }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- .volumes | nindent 8 }}
        {{- include "dds.commonVolumes" .root | nindent 8 }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if $sqlite }}
        - name: log
          persistentVolumeClaim:
            claimName: {{ (ternary .root.Values.log.sqlite $values $scaler).existingClaim | default (printf "%s-log" (include "dds.partName" .)) }}
        {{- end }}
{{- end }}

{{/* The Service that the metrics are scraped from. */}}
{{- define "dds.partMetrics" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "dds.partName" . }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
spec:
  clusterIP: None
  # A standby and a scaler whose log is away are watched as well.
  publishNotReadyAddresses: true
  selector:
    {{- include "dds.partSelector" . | nindent 4 }}
  ports:
    - name: metrics
      port: {{ .root.Values.metrics.port }}
      targetPort: metrics
{{- end }}

{{/* The network policy. `ingress` and `egress` are texts, further rules of these lists. */}}
{{- define "dds.partTraffic" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "dds.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "dds.partSelector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  {{- include "dds.ingress" .root | nindent 2 }}
    {{- with .ingress }}{{ . | nindent 4 }}{{ end }}
  {{- include "dds.egress" .root | nindent 2 }}
    {{- with .egress }}{{ . | nindent 4 }}{{ end }}
{{- end }}

{{- define "dds.partMonitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "dds.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
    {{- with .root.Values.metrics.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "dds.partSelector" . | nindent 6 }}
  endpoints:
    {{- include "dds.scrape" (dict "root" .root "service" (printf "%s-metrics" (include "dds.partName" .))) | nindent 4 }}
{{- end }}

{{/* Its share of the scaler's priority level. */}}
{{- define "dds.partFlowSchema" -}}
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: {{ include (printf "dds.%sClusterName" .part) .root }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
spec:
  priorityLevelConfiguration:
    name: {{ include "dds.clusterName" .root }}
  # After the built-in ones for the control plane (up to 900), before `service-accounts` (9000).
  matchingPrecedence: 1000
  # Claims of one namespace do not wait for those of another, and the Lease for none of them.
  distinguisherMethod:
    type: ByNamespace
  rules:
    - subjects:
        - kind: ServiceAccount
          serviceAccount:
            name: {{ include "dds.partAccount" . }}
            namespace: {{ .root.Release.Namespace }}
      resourceRules:
        - verbs: ["*"]
          apiGroups: ["*"]
          resources: ["*"]
          clusterScope: true
          namespaces: ["*"]
      nonResourceRules:
        - verbs: ["*"]
          nonResourceURLs: ["*"]
{{- end }}

{{/* A ClusterRole for those who may GET /`path`. */}}
{{- define "dds.reader" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ include "dds.clusterName" .root }}-{{ .path }}-reader
  labels:
    {{- include "dds.labels" .root | nindent 4 }}
rules:
  - nonResourceURLs: [/{{ .path }}]
    verbs: [get]
{{- end }}
