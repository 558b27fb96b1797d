// Package kubeletapi is a small client of the kubelet of this node.
//
// The kubelet has two servers. The plain one, :10248 by default, only answers
// /healthz. The authenticated one, :10250 by default, answers /metrics and a
// /healthz that knows more; it is shown the detector's own credentials for the
// API server, which it hands to the API server for review.
//
// # Who is taken for the kubelet
//
// While the kubelet is down anybody on the host's network can listen on its
// port, so nothing is sent before the certificate that is served has been
// verified. It must be one of:
//
//   - a certificate in one of the CertificateFiles. Only root can write there,
//     so such a certificate is accepted even if it has expired: the kubelet never
//     renews kubelet.crt, which it has signed itself;
//   - a certificate for servers (extended key usage serverAuth), valid now, that
//     was signed by a certificate in one of the CertificateFiles or by the
//     certificate authority of the API server.
//
// The host name in the certificate is not looked at: it is the node's name or
// address as the kubelet, k3s or the operator has chosen it, and never the
// loopback address that is connected to. What protects instead is the purpose:
// with the usual signers an ordinary client certificate of the cluster is not
// one for servers.
//
// The files are read for every new connection, so their rotation needs no
// attention.
//
// # Permissions
//
// The kubelet asks the API server (authorization mode Webhook) whether the
// account may get
//
//	/metrics   nodes/metrics
//	/healthz   nodes/healthz; nodes/proxy before Kubernetes 1.33, or 1.32 with
//	           its feature gate KubeletFineGrainedAuthz
//
// nodes/proxy allows to run commands in every pod of the node. Do not grant it
// for the sake of /healthz: what is lost without is the state of the sync loop.
//
// While the API server can't be reached the kubelet can't review tokens: it
// answers with 401 or 500, or late. That says nothing about the kubelet.
package kubeletapi
