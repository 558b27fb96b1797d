// Package remote is the remote detector: it looks at nodes on which it does not run, and sets
// conditions of them. Of several processes one leads.
//
// It asks the API server of each control-plane node (endpoint.go), and makes conditions of alerts
// (alerts.go), which an Alertmanager or a Prometheus is asked for (alertmanager.go, prometheus.go), or
// an Alertmanager sends (webhook.go). How a condition is written is a matter of package exporter,
// of which each node has one. There is no state file: what was known before a start is what
// stands on the Node, which its exporter reads before it writes.
package remote
