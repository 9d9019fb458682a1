{{- define "mega.labels" -}}
app.kubernetes.io/name: mega
{{- end }}
{{- define "mega.chartLabels" -}}
{{ include "mega.labels" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
