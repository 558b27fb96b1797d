// Package monitoring tests what people watch Nodemend by: the alerts, with promtool; the
// dashboard and the list of metrics, with a Prometheus that scrapes all roles.
//
// Their programs are those of Debian's package prometheus.
package monitoring
