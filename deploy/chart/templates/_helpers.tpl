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

{{- /* Whether the controller may free pods and volumes, by the taint for that. */ -}}
{{- define "nodemend.frees" -}}
{{- if or .Values.controller.personsWord (and .Values.remoteRunner.enabled .Values.remoteRunner.outOfService) -}}
true
{{- end -}}
{{- end -}}

{{- /* The labels of a component. */ -}}
{{- define "nodemend.labels" -}}
{app.kubernetes.io/name: nodemend, app.kubernetes.io/component: {{ . }}}
{{- end -}}

{{- /* What all pods of a role on nodes have in common: they run on every node, whatever is
wrong with it, unless the values say otherwise. */ -}}
{{- define "nodemend.onEveryNode" -}}
{{- $placed := index .root.Values .role -}}
priorityClassName: system-node-critical
nodeSelector: {{ toJson (merge (dict "kubernetes.io/os" "linux") ($placed.nodeSelector | default dict)) }}
{{- with $placed.tolerations }}
tolerations: {{ toJson . }}
{{- else }}
tolerations: [{operator: Exists}]
{{- end }}
{{- with $placed.affinity }}
affinity: {{ toJson . }}
{{- end }}
hostNetwork: true # it needs none of the cluster's, and the host's loopback
dnsPolicy: Default
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- end -}}

{{- /* The annotations of a role's pods. Its configuration is read at the start only. */ -}}
{{- define "nodemend.podAnnotations" -}}
{{- $annotations := deepCopy (.values.podAnnotations | default dict) -}}
{{- with .config }}
{{- $_ := set $annotations "nodemend.dev/config-hash" (toJson . | sha256sum) -}}
{{- end }}
{{- with .files }}
{{- $_ := set $annotations "nodemend.dev/files-hash" (toJson . | sha256sum) -}}
{{- end }}
{{- with $annotations }}
annotations: {{ toJson . }}
{{- end }}
{{- end -}}

{{- /* The detector's configuration, as YAML; empty: the defaults. */ -}}
{{- define "nodemend.detectorConfig" -}}
{{- $config := deepCopy (.Values.detector.config | default dict) -}}
{{- if and .Values.detector.reportBMC (not .Values.hostUnits.enabled) -}}
{{- $config = mergeOverwrite $config (dict "checks" (dict "hardware" (dict "reportBMC" true))) -}}
{{- end -}}
{{- with $config }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{- /* How the pods of a role are replaced. */ -}}
{{- define "nodemend.updateStrategy" -}}
updateStrategy:
{{- with .updateStrategy }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  type: RollingUpdate
  rollingUpdate: {maxUnavailable: 10%}
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

{{- /* The namespaces of this cluster, as JSON, whose BareMetalHosts the remote runner switches. */ -}}
{{- define "nodemend.metal3Namespaces" -}}
{{- $all := list }}
{{- range .Values.remoteRunner.config.switches | default list }}
{{- if and .metal3 (not (.metal3 | default dict).kubeconfig) }}
{{- $all = append $all .metal3.namespace }}
{{- end }}
{{- end }}
{{- $all | uniq | toJson }}
{{- end }}

{{- /* That an account writes conditions of these types, of all nodes, and no other field of Nodes. */ -}}
{{- define "nodemend.conditionsOnly" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .policy }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [nodes/status]
      operations: [UPDATE]
  matchConditions:
  - name: the-account
    expression: request.userInfo.username == 'system:serviceaccount:{{ .namespace }}:{{ .account }}'
  variables:
  # The types of condition that it may write.
  - name: allowed
    expression: {{ toJson .conditions | quote }}
  - name: pod
    expression: request.userInfo.?extra[?'authentication.kubernetes.io/pod-name'][?0].orValue('')
  # The conditions of others, before and after.
  - name: before
    expression: oldObject.?status.?conditions.orValue([]).filter(c, !(c.type in variables.allowed))
  - name: after
    expression: object.?status.?conditions.orValue([]).filter(c, !(c.type in variables.allowed))
  # What else the request would change. dyn(): as maps, to see every field.
  - name: changedStatus
    expression: >-
      dyn(object.status).map(k, k).filter(k, k != 'conditions' && dyn(object.status)[k] != dyn(oldObject.status)[?k].orValue(null))
      + dyn(oldObject.status).map(k, k).filter(k, k != 'conditions' && !(k in dyn(object.status)))
  - name: changedMetadata
    expression: >-
      dyn(object.metadata).map(k, k).filter(k, !(k in ['managedFields', 'resourceVersion']) && dyn(object.metadata)[k] != dyn(oldObject.metadata)[?k].orValue(null))
      + dyn(oldObject.metadata).map(k, k).filter(k, !(k in ['managedFields', 'resourceVersion']) && !(k in dyn(object.metadata)))
  validations:
  - expression: variables.pod != ''
    reason: Forbidden
    message: a token of {{ .account }} that is not bound to a pod may not write any node's status
  - expression: variables.before == variables.after
    reason: Forbidden
    message: {{ .who }} may not write the conditions of others
    messageExpression: >-
      '{{ .who }} may write ' + variables.allowed.join(', ') + ' only, not '
      + (variables.after.filter(c, !(c in variables.before)) + variables.before.filter(c, !variables.after.exists(a, a.type == c.type))).map(c, c.type).join(', ')
  # A Node is read by many.
  - expression: >-
      object.?status.?conditions.orValue([]).all(c,
      (c.status in ['True', 'False', 'Unknown'] && c.?reason.orValue('').size() <= 1024 && c.?message.orValue('').size() <= 4096)
      || c in oldObject.?status.?conditions.orValue([]))
    reason: Forbidden
    message: {{ .who }} may write conditions with the status True, False or Unknown, a reason of 1024 and a message of 4096 characters at most
  # One of each type: a second one would hide from some readers what the first one says.
  - expression: >-
      variables.allowed.all(t, object.?status.?conditions.orValue([]).filter(c, c.type == t).size() <= 1)
    reason: Forbidden
    message: {{ .who }} may write one condition of each type
  - expression: variables.changedStatus.size() == 0
    reason: Forbidden
    message: {{ .who }} may write conditions only
    messageExpression: >-
      '{{ .who }} may write conditions only, not status.' + variables.changedStatus.join(', status.')
  - expression: variables.changedMetadata.size() == 0
    reason: Forbidden
    message: {{ .who }} may write conditions only
    messageExpression: >-
      '{{ .who }} may write conditions only, not metadata.' + variables.changedMetadata.join(', metadata.')
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .policy }}
spec:
  policyName: {{ .policy }}
  validationActions: [Deny]
{{- end -}}
