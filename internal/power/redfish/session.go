package redfish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/nodemend/nodemend/internal/power"
)

// closeTime is how long a service is given to end a session.
const closeTime = 2 * time.Second

// Session is a login at a service. It is not safe for concurrent use.
type Session struct {
	options   Options
	password  string
	transport *http.Transport
	client    *gofish.APIClient
	// systems is how many were read when one was picked last: all that the service has, unless the options name one; of an
	// error: one at least that could not be read.
	systems int
	// logOut ends the session, also when there is no time left.
	logOut func()
}

// Open logs in. The files of the password and of the certificates are read anew.
func Open(ctx context.Context, o Options) (*Session, error) {
	s := &Session{options: o}
	var err error
	if s.password, err = o.Password.Read(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.URL, err)
	}
	if s.transport, err = o.TLS.transport(); err != nil {
		return nil, fmt.Errorf("%s: %w", o.URL, err)
	}
	s.client, err = gofish.ConnectContext(ctx, gofish.ClientConfig{
		Endpoint: o.URL, Username: o.User, Password: s.password, HTTPClient: newClient(s.transport, o), ReuseConnections: true,
	})
	if err != nil {
		s.transport.CloseIdleConnections()
		return nil, s.explain(ctx, err)
	}
	s.logOut = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		s.client.WithContext(ctx).Logout()
	}
	return s, nil
}

// Close ends the session, also after the context that it was opened with: a service has few of
// them, and keeps one for half an hour.
func (s *Session) Close() {
	s.logOut()
	s.transport.CloseIdleConnections()
}

// System returns the path of the system that is the machine; of the only one for the zero UUID.
func (s *Session) System(ctx context.Context, machine power.UUID) (string, error) {
	system, err := s.pick(s.client.WithContext(ctx), machine)
	if err != nil {
		return "", s.explain(ctx, err)
	}
	return system.ODataID, nil
}

// Expand returns the query that has the service answer the members of a collection with it;
// empty if it offers none.
func (s *Session) Expand() string {
	switch offers := s.client.Service.ProtocolFeaturesSupported.ExpandQuery; {
	case !offers.NoLinks:
		return ""
	case offers.Levels:
		return "?$expand=.($levels=1)"
	default:
		return "?$expand=."
	}
}

// Get returns what the service answers for a path, which may have a query. A # in it, as in the
// names of some services, is a part of the path. The error wraps a Status, power.ErrLogin,
// power.ErrNoAnswer or ErrTooMuch.
func (s *Session) Get(ctx context.Context, path string) ([]byte, error) {
	if !strings.HasPrefix(path, "/redfish/") {
		return nil, fmt.Errorf("%s: the service leads to %.80q, which is none of its paths", s.options.URL, path)
	}
	response, err := s.client.WithContext(ctx).Get(strings.ReplaceAll(path, "#", "%23"))
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	defer func() { _ = response.Body.Close() }() // was only read
	data, err := io.ReadAll(response.Body)
	if err == nil && len(data) >= maxBody {
		err = fmt.Errorf("%w: an answer is longer than %d MiB", ErrTooMuch, maxBody>>20)
	}
	return data, s.explain(ctx, err)
}

// explain returns what the error is, with the address and without the password.
func (s *Session) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return power.Hide(fmt.Errorf("%s: %w", s.options.URL, explain(ctx, err)), s.password)
}

// pick returns the system that is the machine. A service may have those of a whole rack.
func (s *Session) pick(client *gofish.APIClient, machine power.UUID) (*schemas.ComputerSystem, error) {
	// Those that could be read come along with the error of the others.
	systems, err := s.read(client)
	s.systems = len(systems)
	if err != nil {
		s.systems++
	}
	if machine == (power.UUID{}) {
		switch {
		case err != nil:
			return nil, err
		case len(systems) != 1:
			return nil, fmt.Errorf("%w: it has %d systems, and nobody says which one it is", power.ErrNoIdentity, len(systems))
		}
		return systems[0], nil
	}
	var found []*schemas.ComputerSystem
	var others []string
	for _, system := range systems {
		guid, parseErr := power.ParseGUID(system.UUID)
		if parseErr != nil {
			continue
		}
		if power.Check(guid, machine) == nil {
			found = append(found, system)
			continue
		}
		others = append(others, guid.String())
	}
	const most = 5
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%w: %d systems have the UUID %s", power.ErrNoIdentity, len(found), machine)
	case err != nil:
		return nil, err
	case len(others) == 0:
		return nil, fmt.Errorf("%w: none of its %d systems has a UUID", power.ErrNoIdentity, len(systems))
	case len(others) > most:
		others = append(others[:most], "…")
	}
	return nil, fmt.Errorf("%w: the UUID of its system is %s, and the node's systemUUID is %s", power.ErrOtherMachine, strings.Join(others, ", "), machine)
}

// read returns the system that the options name, or else all of them. A service may take half a second for each
// one of a rack, and is asked for each of its nodes. The path of a system ends with its Id (DSP0266, and the URIs
// of its schema); where it does not, it is found among all.
func (s *Session) read(client *gofish.APIClient) ([]*schemas.ComputerSystem, error) {
	name := s.options.System
	if name == "" {
		return client.Service.Systems()
	}
	system, err := schemas.GetComputerSystem(client, "/redfish/v1/Systems/"+url.PathEscape(name))
	var refused *schemas.Error
	switch {
	case err == nil && system.ID == name:
		return []*schemas.ComputerSystem{system}, nil
	case err == nil, errors.As(err, &refused) && isLogin(refused) == nil:
		return client.Service.Systems()
	default:
		return nil, err
	}
}

// ErrTooMuch is wrapped by errors of a service that answers more than is read.
var ErrTooMuch = errors.New("the service has too much to read")
