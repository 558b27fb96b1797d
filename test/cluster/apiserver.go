package cluster

import (
	"context"
	"errors"
	"slices"
)

const apiServerName = "kube-apiserver"

// KillAPIServer ends the API server at once, for tests of what others do without
// it. Nothing else is ended: what runs beside it has to put up with that, too. Not
// to be called concurrently with another start or end.
func (c *Cluster) KillAPIServer() error {
	i := slices.IndexFunc(c.processes, func(p *child) bool { return p.name == apiServerName })
	if i < 0 {
		return errors.New("killing the API server: it is not running")
	}
	p := c.processes[i]
	c.processes = slices.Delete(c.processes, i, i+1)
	p.Kill()
	return nil
}

// StartAPIServer starts the API server again, with the same data, address and
// credentials, and returns when it serves requests.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	p, err := c.start(apiServerName, c.apiServerFlags...)
	if err != nil {
		return err
	}
	return c.waitReady(ctx, p, c.apiServerReady)
}
