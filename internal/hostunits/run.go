package hostunits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/nodemend/nodemend/internal/serve"
)

// interval is how often everything is looked at again: a token that is renewed is on
// the host this much later, and so is a file that somebody has removed.
const interval = 30 * time.Second

// errSuperseded is what a newer installer brings about.
var errSuperseded = errors.New("a newer installer looks after this host; this one waits until that has gone")

// Run installs the unit, has it run, and keeps it so until ctx ends; the unit goes on
// then. It returns an error if the first installation fails. What fails later is
// logged, shown at /readyz and tried again.
func Run(ctx context.Context, o Options) error {
	if err := o.validateInstall(); err != nil {
		return err
	}
	i, err := newInstaller(o)
	if err != nil {
		return err
	}
	var h health
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve.At(ctx, "--health-address", o.HealthAddress, h.handler()) })
	group.Go(func() error { return i.keep(ctx, claim{path: i.here.claim, id: uuid.NewUUID()}, &h) })
	return group.Wait()
}

// keep installs and stays.
func (i *installer) keep(ctx context.Context, mine claim, h *health) (err error) {
	log := logr.FromContextOrDiscard(ctx)
	if err := mine.take(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mine.release(context.WithoutCancel(ctx))) }()
	c, err := i.converge(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("installing %s on this host: %w", i.role.Unit(), err)
	}
	log.Info("Installed on the host, staying to keep it so", "unit", i.role.Unit(), "tokenLifetime", c.lifetime.String())
	h.set(c, nil)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for last := ""; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		c, err := i.again(ctx, mine)
		if ctx.Err() != nil {
			return nil
		}
		h.set(c, err)
		last = tell(log, last, err)
	}
}

// again is converge for the installer that has the claim.
func (i *installer) again(ctx context.Context, mine claim) (credentials, error) {
	ours, err := mine.renew(ctx)
	if err == nil && !ours {
		err = errSuperseded
	}
	if err != nil {
		return credentials{}, err
	}
	return i.converge(ctx)
}

// tell logs an error unless it was the last one, and its end.
func tell(log logr.Logger, last string, err error) string {
	switch {
	case err == nil && last != "":
		log.Info("The host is as it should be again")
	case errors.Is(err, errSuperseded) && last != err.Error():
		log.Info("Waiting", "reason", err.Error())
	case err != nil && last != err.Error():
		log.Error(err, "The host is not as it should be; trying again", "interval", interval.String())
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
