{{- define "weir.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* The configuration, with the parts that belong to the chart. */}}
{{- define "weir.config" -}}
{{- if not .Values.config.upstreams -}}
{{- fail "config.upstreams is empty: name the service that weir is in front of, such as --set 'config.upstreams[0].name=shop' --set 'config.upstreams[0].servers[0]=http://shop:3000'" -}}
{{- end -}}
{{- $config := deepCopy .Values.config -}}
{{- if not $config.routes -}}
{{- $_ := unset $config "routes" -}}
{{- end -}}
{{- $_ := set $config "listen" (list (dict "address" ":8080")) -}}
{{- $_ := set $config "admin" (dict "address" ":9090" "token_file" "/etc/weir-secrets/admin.token" "console" .Values.admin.console) -}}
{{- toYaml $config -}}
{{- end -}}
