{{- define "nodemend.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "nodemend.imageOf" -}}
image: {{ include "nodemend.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end -}}

{{- /* The labels of a component. */ -}}
{{- define "nodemend.labels" -}}
{app.kubernetes.io/name: nodemend, app.kubernetes.io/component: {{ . }}}
{{- end -}}

{{- /* What all pods on nodes have in common: they run on every node, whatever is
wrong with it. */ -}}
{{- define "nodemend.onEveryNode" -}}
priorityClassName: system-node-critical
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{operator: Exists}]
hostNetwork: true # it needs none of the cluster's, and the host's loopback
dnsPolicy: Default
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end -}}

{{- /* Where detector and runner serve metrics, which have no login: to the node itself,
unless somebody is known to ask from outside. */ -}}
{{- define "nodemend.metricsHost" -}}
{{- if .Values.podMonitor.enabled }}0.0.0.0{{ else }}127.0.0.1{{ end -}}
{{- end -}}

{{- define "nodemend.agentEnv" -}}
env:
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
{{- with .Values.apiServer }}
{{- if .host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ .port | quote }}}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The token, which the API server lets a usual one outlive by a year. The kubelet renews
this one when 80 % have passed: if it has ended, an agent has five hours at least. The
API server may allow less. */ -}}
{{- define "nodemend.credentials" -}}
- name: credentials
  projected:
    sources:
    - serviceAccountToken: {path: token, expirationSeconds: {{ . }}}
    - configMap:
        name: kube-root-ca.crt
        items: [{key: ca.crt, path: ca.crt}]
    - downwardAPI:
        items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end -}}

{{- define "nodemend.credentialsMount" -}}
- {name: credentials, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end -}}

{{- /* Removes the unit that hostUnits.enabled has installed, before the role starts as a
pod. It fails, and is tried again, while the installer of the unit still runs. */ -}}
{{- define "nodemend.removeHostUnit" -}}
initContainers:
- name: remove-host-unit
  {{- include "nodemend.imageOf" .root | nindent 2 }}
  command: [/nodemend-agent]
  args: [host-units, remove, --role={{ .role }}]
  resources:
    requests: {cpu: 5m, memory: 32Mi}
  securityContext: {privileged: true}
  volumeMounts:
  - {name: host, mountPath: /host, mountPropagation: HostToContainer}
{{- end -}}

{{- /* A file of Prometheus or Grafana that the chart holds. */ -}}
{{- define "nodemend.file" -}}
{{- .root.Files.Get .name | required (printf "the chart has no file %s" .name) -}}
{{- end -}}
