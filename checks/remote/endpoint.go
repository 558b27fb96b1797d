package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/nodemend/nodemend/checks"
	config "github.com/nodemend/nodemend/config/detector"
	"github.com/nodemend/nodemend/internal/cut"
)

// Reasons of the condition ControlPlaneEndpointUnhealthy.
const (
	ReasonEndpointHealthy = "EndpointHealthy"
	// Problems.
	ReasonEndpointRefused     = "EndpointRefused"
	ReasonEndpointTimeout     = "EndpointTimeout"
	ReasonEndpointUnreachable = "EndpointUnreachable"
	ReasonEndpointFails       = "EndpointFails"
	// What can't be told.
	ReasonNoOtherHealthy         = "NoOtherEndpointHealthy"
	ReasonCertificateNotVerified = "CertificateNotVerified"
	ReasonAccessDenied           = "AccessDenied"
	ReasonNoAddress              = "NoAddress"
	ReasonEndpointNotAsked       = "EndpointNotAsked"
)

const (
	// asksAtOnce is how many nodes are asked at a time.
	asksAtOnce = 64
	// maxBody is how much of an answer is read, and shownBody how much of it is shown.
	maxBody, shownBody = 4 << 10, 200
)

// endpoints asks each control-plane node for the health of its API server.
type endpoints struct {
	config   config.ControlPlaneEndpoint
	selector labels.Selector
	cluster  rest.TLSClientConfig
	own      string
}

func newEndpoints(c config.ControlPlaneEndpoint, cluster rest.TLSClientConfig, own string) (*endpoints, error) {
	selector, err := labels.Parse(c.NodeSelector)
	if err != nil {
		return nil, fmt.Errorf("controlPlaneEndpoint.nodeSelector: %w", err)
	}
	if c.CAFile == "" && len(cluster.CAData) == 0 && cluster.CAFile == "" {
		return nil, errors.New("controlPlaneEndpoint.caFile is empty, and the credentials for the API server have no certificate authority: name the file that has the cluster's, such as /etc/kubernetes/pki/ca.crt")
	}
	return &endpoints{config: c, selector: selector, cluster: cluster, own: own}, nil
}

func (e *endpoints) String() string { return "controlPlaneEndpoint" }

func (e *endpoints) settings() config.RemoteRun { return e.config.RemoteRun }

func (e *endpoints) types(n node) []string {
	if !e.selector.Matches(n.labels) {
		return nil
	}
	return []string{config.ControlPlaneEndpointUnhealthy}
}

func (e *endpoints) look(ctx context.Context, nodes []node) found {
	client, err := e.client()
	if err == nil {
		defer client.CloseIdleConnections()
	}
	results := make([]checks.Result, len(nodes))
	turn := make(chan struct{}, asksAtOnce)
	var asking sync.WaitGroup
	for i, n := range nodes {
		asking.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if err != nil {
				results[i] = checks.CannotTell(ReasonEndpointNotAsked, err.Error())
				return
			}
			results[i] = e.ask(ctx, client, n)
		})
	}
	asking.Wait()
	all := map[string]checks.Result{}
	for i, n := range nodes {
		all[n.name] = results[i]
	}
	f := found{}
	for name, r := range witnessed(all, e.own) {
		f.add(name, config.ControlPlaneEndpointUnhealthy, r)
	}
	return f
}

func (e *endpoints) client() (*http.Client, error) {
	believed := e.cluster.CAData
	if e.config.CAFile == "" && len(believed) == 0 {
		var err error
		if believed, err = os.ReadFile(e.cluster.CAFile); err != nil {
			return nil, fmt.Errorf("reading the cluster's certificate authority: %w", err)
		}
	}
	return clientFor(e.config.Trust, believed)
}

// witnessed returns results in which a problem is one only if another node's endpoint was well at
// the same time, and not that of the node on which the detector runs: else it may be the network
// of the detector itself.
func witnessed(results map[string]checks.Result, own string) map[string]checks.Result {
	witness := false
	for name, r := range results {
		witness = witness || r.Status == checks.False && name != own
	}
	judged := map[string]checks.Result{}
	for name, r := range results {
		if r.Status == checks.True && !witness {
			r = checks.CannotTell(ReasonNoOtherHealthy, "no endpoint of another node is well, so this may be the detector's own network: "+r.Message)
		}
		judged[name] = r
	}
	return judged
}

// ask asks a node for all paths.
func (e *endpoints) ask(ctx context.Context, client *http.Client, n node) checks.Result {
	at := slices.IndexFunc(n.addresses, func(a corev1.NodeAddress) bool { return a.Type == e.config.AddressType && a.Address != "" })
	if at < 0 {
		return checks.CannotTell(ReasonNoAddress, fmt.Sprintf("the node has no address of type %s", e.config.AddressType))
	}
	host := net.JoinHostPort(n.addresses[at].Address, strconv.Itoa(e.config.Port))
	ctx, cancel := context.WithTimeout(ctx, e.config.Timeout.Duration)
	defer cancel()
	for _, path := range e.config.Paths {
		if r := e.get(ctx, client, "https://"+host+path); r.Status != checks.False {
			return r
		}
	}
	return checks.Healthy(ReasonEndpointHealthy, fmt.Sprintf("%s answers well for %s", host, strings.Join(e.config.Paths, ", ")))
}

func (e *endpoints) get(ctx context.Context, client *http.Client, url string) checks.Result {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return checks.CannotTell(ReasonEndpointNotAsked, err.Error())
	}
	if err := authorize(request, e.config.Trust); err != nil {
		return checks.CannotTell(ReasonEndpointNotAsked, err.Error())
	}
	response, err := client.Do(request)
	if err != nil {
		return e.unanswered(url, err)
	}
	defer func() { _ = response.Body.Close() }() // was only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody))
	if err == nil {
		err = ctx.Err() // a server may end its answer since we hang up
	}
	if err != nil {
		return e.unanswered(url, err)
	}
	switch code := response.StatusCode; {
	case slices.Contains(e.config.OKCodes, code):
		return checks.Healthy(ReasonEndpointHealthy, "")
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return checks.CannotTell(ReasonAccessDenied, fmt.Sprintf("%s: HTTP status %d: it lives, and wants another token than that of tokenFile, if any", url, code))
	default:
		text := strings.Join(strings.Fields(cut.Plain(string(body))), " ")
		return checks.Problem(ReasonEndpointFails, strings.TrimSuffix(fmt.Sprintf("%s: HTTP status %d, accepted are %v: %s", url, code, e.config.OKCodes, cut.Head(text, shownBody)), ": "))
	}
}

// unanswered is what it means that there was no answer. What is not known to be the server's
// fault is none.
func (e *endpoints) unanswered(url string, err error) checks.Result {
	text := strings.TrimPrefix(err.Error(), fmt.Sprintf("Get %q: ", url))
	text = url + ": " + cut.Head(cut.Plain(text), 2*shownBody)
	switch {
	case unverified(err):
		return checks.CannotTell(ReasonCertificateNotVerified, text+". See caFile and serverName")
	case errors.Is(err, syscall.ECONNREFUSED):
		return checks.Problem(ReasonEndpointRefused, text)
	case errors.Is(err, syscall.EHOSTUNREACH):
		return checks.Problem(ReasonEndpointUnreachable, text)
	case unresolved(err):
		return checks.CannotTell(ReasonEndpointNotAsked, text)
	case timedOut(err):
		return checks.Problem(ReasonEndpointTimeout, fmt.Sprintf("%s: no answer within %s", url, e.config.Timeout))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return checks.Problem(ReasonEndpointFails, text)
	default:
		return checks.CannotTell(ReasonEndpointNotAsked, text)
	}
}

func unresolved(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns)
}
