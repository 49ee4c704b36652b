{{/* What publisher and autoscaler have alike when they run in a Deployment of their own. Each is given `root`, the chart's, and `part`,
the name of the component, which is that of its values and of its helpers, too. */}}

{{- define "dds.partName" -}}
{{- include (printf "dds.%sName" .part) .root -}}
{{- end }}

{{- define "dds.partLabels" -}}
{{- include (printf "dds.%sLabels" .part) .root -}}
{{- end }}

{{- define "dds.partSelector" -}}
app.kubernetes.io/name: dds-{{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* ServiceAccount, volume of the log, disruption budget. */}}
{{- define "dds.partAround" -}}
{{- $values := get .root.Values .part }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "dds.partName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "dds.partLabels" . | nindent 4 }}
  {{- with .root.Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- if and (eq .root.Values.log.kind "sqlite") (not $values.existingClaim) }}
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
      storage: {{ $values.logSize }}
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

{{/* The Deployment. Besides: `command` of dds, and its own `arguments`, `environment`, `mounts` and `volumes` as texts. */}}
{{- define "dds.partDeployment" -}}
{{- $values := get .root.Values .part }}
{{- $sqlite := eq .root.Values.log.kind "sqlite" }}
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
        {{- with .root.Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: dds
        {{- with .root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "dds.partName" . }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 40
      securityContext:
        {{- include "dds.podSecurity" .root | nindent 8 }}
      {{- with include "dds.placement" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- if gt (int $values.replicas) 1 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "dds.partSelector" . | nindent 14 }}
      {{- end }}
      containers:
        - name: dds
          {{- include "dds.image" .root | nindent 10 }}
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
            - --lease-name={{ $values.leaseName }}
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
            - name: DDS_COMPONENT
              value: {{ .part }}
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
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- include "dds.portsAndProbes" .root | nindent 10 }}
          securityContext:
            {{- include "dds.containerSecurity" .root | nindent 12 }}
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
            claimName: {{ $values.existingClaim | default (printf "%s-log" (include "dds.partName" .)) }}
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
  matchingPrecedence: 1000
  distinguisherMethod:
    type: ByNamespace
  rules:
    - subjects:
        - kind: ServiceAccount
          serviceAccount:
            name: {{ include "dds.partName" . }}
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
