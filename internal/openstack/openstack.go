// Package openstack logs in to an OpenStack cloud by a clouds.yaml, and explains what it answers.
package openstack

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/nodemend/nodemend/internal/power"
)

const (
	// patience is how long one answer is waited for.
	patience = 15 * time.Second
	// idle is how long a connection of a session is kept for the next request of it.
	idle = 2 * time.Second
	// maxCloudsFile is how long a clouds.yaml may be.
	maxCloudsFile = 1 << 20
	// maxAnswer is how long one answer may be. A thousand node groups are 2 MB.
	maxAnswer = 8 << 20
)

// Cloud is one of a clouds.yaml.
type Cloud struct {
	// File is the clouds.yaml, such as that of a mounted Secret. It is read for each session, since
	// people exchange what is in it. A secure.yaml beside it is not read. Of the environment
	// only OS_CACERT, OS_CERT and OS_KEY count.
	File string
	// Name is that of the cloud in the file.
	Name string
}

// String names the cloud, without anything of the file.
func (c Cloud) String() string { return "openstack://" + c.Name }

// Session is a login to a cloud. It ends by itself: tokens expire.
type Session struct {
	cloud    Cloud
	provider *gophercloud.ProviderClient
	endpoint gophercloud.EndpointOpts
}

// Open logs in.
func (c Cloud) Open(ctx context.Context) (*Session, error) {
	auth, endpoint, tlsConfig, err := c.read()
	if err != nil {
		return nil, err
	}
	provider, err := openstack.NewClient(auth.IdentityEndpoint)
	if err != nil {
		return nil, fmt.Errorf("%s: auth_url: %w", c, err)
	}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: tlsConfig, TLSHandshakeTimeout: patience, IdleConnTimeout: idle,
	}
	provider.HTTPClient = http.Client{
		Transport: careful{transport}, Timeout: patience,
		// What a redirect is to may be another's, and gets the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s := &Session{cloud: c, provider: provider, endpoint: endpoint}
	auth.AllowReauth = false
	if err := openstack.AuthenticateV3(ctx, provider, &auth, gophercloud.EndpointOpts{}); err != nil {
		return nil, s.explain("logging in", err)
	}
	return s, nil
}

// read returns what the file says of the cloud.
func (c Cloud) read() (auth gophercloud.AuthOptions, endpoint gophercloud.EndpointOpts, config *tls.Config, err error) {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return auth, endpoint, nil, fmt.Errorf("reading a clouds.yaml: %w", err)
	}
	if len(data) > maxCloudsFile {
		return auth, endpoint, nil, fmt.Errorf("reading a clouds.yaml: %s is longer than %d bytes", c.File, maxCloudsFile)
	}
	auth, endpoint, config, err = clouds.Parse(clouds.WithCloudsYAML(bytes.NewReader(data)), clouds.WithCloudName(c.Name),
		clouds.WithRegion(""), clouds.WithEndpointType("")) // what the file says, not the environment
	if err != nil {
		// The parser may repeat a line of the file, which has a secret in it.
		return auth, endpoint, nil, fmt.Errorf("%s: it is no clouds.yaml with a cloud %q, or names a file that can't be read: accepted is clouds: {%s: {auth: {auth_url: …}}}", c.File, c.Name, c.Name)
	}
	switch {
	case config.InsecureSkipVerify:
		err = fmt.Errorf("%s: verify: false is refused: anybody could say then that a server is off. Name the certificate of the CA by cacert", c.File)
	case auth.Scope == nil && auth.ApplicationCredentialID == "" && auth.ApplicationCredentialName == "":
		err = fmt.Errorf("%s: it names no project: accepted are application_credential_id and application_credential_secret, or a user with project_id or project_name", c.File)
	default:
		if err = safe(auth.IdentityEndpoint); err != nil {
			err = fmt.Errorf("%s: auth_url: %w", c.File, err)
		}
	}
	config.MinVersion = tls.VersionTLS12
	if auth.Scope != nil { // it has the project
		auth.TenantID, auth.TenantName = "", ""
	}
	if auth.ApplicationCredentialID != "" || auth.ApplicationCredentialName != "" { // of one project
		auth.Scope, auth.TenantID, auth.TenantName = nil, "", ""
	}
	return auth, endpoint, config, err
}

// safe wants a URL whose server is known by its certificate, or is on this machine.
func safe(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("%.80q is no URL: accepted is https://HOST/…", text)
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme != "https" && (u.Scheme != "http" || ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%.80q is not of https: anybody on the way could read the login, and say what they like", text)
	}
	return nil
}

// careful asks what is safe to ask alone, also where an answer has a link to more of it, and reads no more of an
// answer than is good for the memory.
type careful struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (c careful) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := safe(request.URL.String()); err != nil {
		return nil, err
	}
	answer, err := c.RoundTripper.RoundTrip(request)
	if err == nil {
		answer.Body = &bounded{answer.Body, maxAnswer}
	}
	return answer, err
}

// bounded is an answer of which no more than so many bytes are read.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Compute returns what asks Nova.
func (s *Session) Compute() (*gophercloud.ServiceClient, error) {
	return s.service("compute")
}

// Magnum returns what asks Magnum, in the version that has node groups and their state.
func (s *Session) Magnum() (*gophercloud.ServiceClient, error) {
	client, err := s.service("container-infrastructure-management")
	if err == nil {
		client.Microversion = "1.10"
	}
	return client, err
}

// service returns what asks a service of a type. Its URL is taken from the catalogue as it is:
// gophercloud's own constructors ask it for its versions first, with the token.
func (s *Session) service(kind string) (*gophercloud.ServiceClient, error) {
	endpoint := s.endpoint
	endpoint.ApplyDefaults(kind)
	at, err := s.provider.EndpointLocator(endpoint)
	if err != nil {
		return nil, fmt.Errorf("%s: the catalogue of its Keystone has no %s for region %q: %w", s.cloud, kind, s.endpoint.Region, err)
	}
	if err := safe(at); err != nil {
		return nil, fmt.Errorf("%s: the catalogue of its Keystone: %w", s.cloud, err)
	}
	return &gophercloud.ServiceClient{ProviderClient: s.provider, Endpoint: at, Type: kind}, nil
}

// ErrNotFound is of what is not in the project and the region, or is not any more.
var ErrNotFound = errors.New("there is none")

// ErrRefused is of a request that was understood, and not carried out.
var ErrRefused = errors.New("refused")

// explain says what an error is, without what the service has written: it may repeat what it was
// told.
func (s *Session) explain(doing string, err error) error {
	var status gophercloud.ErrUnexpectedResponseCode
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &status):
		var network net.Error
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) {
			return fmt.Errorf("%s: %s: %w: %w", s.cloud, doing, power.ErrNoAnswer, err)
		}
		return fmt.Errorf("%s: %s: %w", s.cloud, doing, err)
	}
	answered := fmt.Errorf("HTTP %d", status.Actual)
	switch code := status.Actual; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%s: %s: %w: %w", s.cloud, doing, power.ErrLogin, answered)
	case code == http.StatusNotFound && !isObject(status.Body):
		return fmt.Errorf("%s: %s: %w: %w, and not by a service of OpenStack: is the URL of its catalogue right, and that of clouds.yaml?", s.cloud, doing, power.ErrNoAnswer, answered)
	case code == http.StatusNotFound:
		return fmt.Errorf("%s: %s: %w in this project and region: %w", s.cloud, doing, ErrNotFound, answered)
	case code >= http.StatusInternalServerError:
		return fmt.Errorf("%s: %s: %w: %w", s.cloud, doing, power.ErrNoAnswer, answered)
	default:
		return fmt.Errorf("%s: %s: %w: %w", s.cloud, doing, ErrRefused, answered)
	}
}

// isObject reports whether an answer is an object of JSON, as errors of services are, unlike those of web
// servers and proxies before them. What these don't find is not gone.
func isObject(answer []byte) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(answer, &object) == nil && object != nil
}

// Explain is for errors of requests to the services of the session.
func (s *Session) Explain(doing string, err error) error { return s.explain(doing, err) }

// Server returns a server. The error is ErrNotFound if there is none of this ID.
func (s *Session) Server(ctx context.Context, id string) (*servers.Server, *gophercloud.ServiceClient, error) {
	compute, err := s.Compute()
	if err != nil {
		return nil, nil, err
	}
	server, err := servers.Get(ctx, compute, id).Extract()
	if err != nil {
		return nil, nil, s.explain("server "+id, err)
	}
	if !strings.EqualFold(server.ID, id) {
		return nil, nil, fmt.Errorf("%s: asked for server %s, Nova answers with server %.80q", s.cloud, id, server.ID)
	}
	return server, compute, nil
}

// Servers returns all servers of the project, in this region, by their IDs.
func (s *Session) Servers(ctx context.Context) (map[string]*servers.Server, error) {
	compute, err := s.Compute()
	if err != nil {
		return nil, err
	}
	pages, err := servers.List(compute, servers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, s.explain("listing the servers", err)
	}
	all, err := servers.ExtractServers(pages)
	if err != nil {
		return nil, s.explain("listing the servers", err)
	}
	byID := make(map[string]*servers.Server, len(all))
	for i := range all {
		byID[strings.ToLower(all[i].ID)] = &all[i]
	}
	return byID, nil
}

// providerID is what the cloud-controller-manager of OpenStack writes: openstack:///ID, or
// openstack://REGION/ID.
var providerID = regexp.MustCompile(`^openstack://[^/]*/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$`)

// ServerID returns the ID of the server that a Node's spec.providerID names. That it is of another
// cloud, or malformed, is told.
func ServerID(text string) (id string, is bool) {
	parts := providerID.FindStringSubmatch(strings.ToLower(text))
	if parts == nil {
		return "", false
	}
	return parts[1], true
}
