{{/* What all pods have in common: no rights in the cluster, and none to change anything on the node. */}}
{{- define "pod" -}}
serviceAccountName: dyno
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- end }}
{{- define "container" -}}
imagePullPolicy: {{ .Values.imagePullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}
{{/* Where the control plane is, and what it is asked with. */}}
{{- define "env" -}}
- {name: DYNO_CONTROL_PLANE, value: "https://dyno-control:7100"}
- {name: DYNO_CONTROL_PLANE_TOKEN_FILE, value: /etc/dyno/control.token}
- {name: SSL_CERT_FILE, value: /etc/dyno/control.crt}
{{- end }}
{{/* The tag of the images: that of the release which the chart is of, or of those that scripts/image.sh makes. */}}
{{- define "version" -}}
{{ .Chart.AppVersion | default "dev" }}
{{- end }}
