{{- define "turnstone.name" -}}
{{- if contains "turnstone" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-turnstone{{ end }}
{{- end }}

{{/* The labels of a pod; they never change. A call gives the root and the component. */}}
{{- define "turnstone.selector" -}}
app.kubernetes.io/name: turnstone
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "turnstone.labels" -}}
{{ include "turnstone.selector" . }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "turnstone.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}
{{- end }}

{{- define "turnstone.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "turnstone.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* The component that clients reach. */}}
{{- define "turnstone.front" -}}
{{ ternary "gateway" "worker" .Values.gateway.enabled }}
{{- end }}

{{/* What the Job and the Deployments have in common, in a pod and in its container. */}}
{{- define "turnstone.pod" -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "turnstone.container" -}}
image: {{ include "turnstone.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
{{- with .Values.secrets }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . }}}
  {{- end }}
{{- end }}
{{- end }}

{{- define "turnstone.env" -}}
- {name: TURNSTONE_HTTP_ADDR, value: ":8080"}
- {name: TURNSTONE_GRPC_ADDR, value: ":9090"}
- {name: TURNSTONE_EVENTS_RELAY_ADDRESS, value: ":7400"}
- {name: TEMPORAL_ADDRESS, value: {{ .Values.temporal.address | quote }}}
- {name: TEMPORAL_NAMESPACE, value: {{ .Values.temporal.namespace | quote }}}
{{- with .Values.database.url }}
- {name: DATABASE_URL, value: {{ . | quote }}}
{{- end }}
{{- with .Values.storage.blobUrl }}
- {name: TURNSTONE_STORAGE_BLOB_URL, value: {{ . | quote }}}
{{- end }}
{{- with .Values.redis.url }}
- {name: TURNSTONE_JOBS_REDIS_URL, value: {{ . | quote }}}
{{- end }}
{{- range $name, $value := .Values.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
