package runner

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
)

// aftermathAge is how long before the present boot a boot may have been ended so that what it has left
// is still collected.
const aftermathAge = 24 * time.Hour

// bootIDs are as the kernel makes them.
var bootIDs = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// aftermath collects what the boots have left that were ended from outside or by a reboot, once for
// each. It only reads, beside the actions, which never wait for it. Nothing is remembered on the node:
// what was collected is in the action's status.
type aftermath struct {
	api    API
	bootID string
	clock  *serverclock.Clock
	uptime func() time.Duration
	// sources are asked one after the other. One returns soon after ctx has ended, whatever hangs.
	sources []leftovers
	// unwritten is what was collected, by the action's name, and the API server has not taken yet. So a sick API
	// server does not have disks and BMCs asked again and again.
	unwritten map[string]*v1alpha1.Aftermath
}

// endedBoot is a boot that is over.
type endedBoot struct {
	// action is the name of the NodeAction by which it was ended.
	action string
	// bootID is the dead boot's, now that of the boot that asks.
	bootID, now string
	// since is how long ago it was claimed.
	since time.Duration
	// output says what of it is kept.
	output *v1alpha1.OutputPolicy
}

// leftovers is one source of what a boot has left.
type leftovers struct {
	source v1alpha1.LeftoverSource
	// collect returns the end of what there is, as the policy has it redacted.
	collect func(ctx context.Context, of endedBoot) (text string, truncated bool, err error)
}

// wants reports whether there is something to collect for an action. Only Work knows whether it is too
// late for that.
func (a *aftermath) wants(action *v1alpha1.NodeAction) bool { return action.AwaitsAftermath(a.bootID) }

// work collects what an action awaits, and writes it down.
func (a *aftermath) work(ctx context.Context, name string) error {
	action, err := a.api.Action(ctx, name)
	if err != nil {
		return err
	}
	if action == nil || !a.wants(action) {
		delete(a.unwritten, name)
		return nil
	}
	claim, now := action.Status.Claim, a.clock.Now()
	if booted := now.Add(-a.uptime()); booted.Sub(claim.Time.Time) > aftermathAge {
		return nil
	}
	node, err := a.api.Node(ctx, action.Spec.NodeName)
	if err != nil {
		return err
	}
	if node == nil { // the kubelet will register it
		return lookAgain(time.Minute)
	}
	if !ofThisMachine(action, node) {
		return nil
	}
	policy, err := a.api.Policy(ctx, action.Spec.Policy.Name)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	if policy == nil || policy.UID != action.Spec.Policy.UID {
		log.Info("What the boot before has left is not collected: the policy is gone that says what is to be redacted", "policy", action.Spec.Policy.Name)
		return nil
	}
	if o := policy.Spec.Output; o != nil && o.Keep == v1alpha1.OutputNone {
		return nil
	}
	collected := a.unwritten[name]
	if collected == nil {
		// It was claimed before this boot, whatever has become of the API server's clock since.
		since := max(now.Sub(claim.Time.Time), a.uptime())
		of := endedBoot{action: action.Name, bootID: claim.BootID, now: a.bootID, since: since, output: policy.Spec.Output}
		if collected, err = a.collect(ctx, of); err != nil {
			return err
		}
		a.unwritten[name] = collected
	}
	action.Status.Aftermath = collected.DeepCopy()
	err = a.api.UpdateStatus(ctx, action)
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err): // by an API server of an earlier version, say
		log.Error(err, "The API server does not take what the boot before has left")
		delete(a.unwritten, name)
		return nil
	case err != nil:
		return fmt.Errorf("writing what the boot before NodeAction %s has left: %w", action.Name, err)
	}
	delete(a.unwritten, name)
	log.Info("Collected what the boot before has left", "bootID", claim.BootID)
	return nil
}

// collect asks all sources. An error is that of ctx.
func (a *aftermath) collect(ctx context.Context, of endedBoot) (*v1alpha1.Aftermath, error) {
	collected := &v1alpha1.Aftermath{BootID: a.bootID}
	for _, s := range a.sources {
		collected.Left = append(collected.Left, s.ask(ctx, of))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return collected, nil
}

// ofThisMachine reports whether the boot that an action has ended was one of the node's machine. Another one
// may have come under its name: what is found there would be told of the dead one.
func ofThisMachine(action *v1alpha1.NodeAction, node *corev1.Node) bool {
	if node.UID == action.Spec.NodeUID || action.Status.Power == nil {
		return node.UID == action.Spec.NodeUID
	}
	was, err := power.ParseUUID(action.Status.Power.Machine)
	is, isErr := power.ParseUUID(node.Status.NodeInfo.SystemUUID)
	return err == nil && isErr == nil && slices.Contains(was.Alike(), is)
}

func (s leftovers) ask(ctx context.Context, of endedBoot) v1alpha1.Leftover {
	left := v1alpha1.Leftover{Source: s.source}
	if !bootIDs.MatchString(of.bootID) {
		left.Problem = clip(fmt.Sprintf("the claim names no boot: %q", of.bootID))
		return left
	}
	var err error
	left.Text, left.Truncated, err = s.collect(ctx, of)
	left.Text = strings.TrimRight(left.Text, "\n")
	if err != nil {
		left.Problem = clip(err.Error())
	}
	return left
}

// run collects until ctx ends.
func (a *aftermath) run(ctx context.Context, q queue) {
	stop := context.AfterFunc(ctx, q.ShutDown)
	defer stop()
	each(ctx, q, a.work)
}
