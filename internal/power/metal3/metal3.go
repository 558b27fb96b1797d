// Package metal3 switches the power of a machine by the BareMetalHost of Metal3 that it is. The
// baremetal-operator knows the BMC, and keeps a machine off as long as the host has an annotation
// reboot.metal3.io/KEY, for whatever KEY.
//
// The host does not say which machine it is: its kind has no UUID. So people say it once, by the
// annotation nodemend.dev/system-uuid, and without it nothing is switched. Nor does it say when its power
// was read: that is what the operator read last. So a [power.Reading] of it is Reported.
package metal3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

var _ power.Switch = (*Switch)(nil)

const (
	// UUIDAnnotation of a BareMetalHost says the systemUUID of its machine.
	UUIDAnnotation = "nodemend.dev/system-uuid"

	// keptOff is what others of the operator's annotations begin with: each keeps the machine off.
	keptOff = "reboot.metal3.io/"
	// OffAnnotation is ours.
	OffAnnotation = keptOff + "nodemend"
	// AtOnce is its value: the operator does not ask the operating system first, for minutes.
	AtOnce = `{"mode":"hard"}`

	// fieldManager is that of the remote runner.
	fieldManager = "nodemend-remote-runner"
)

// Kind is the kind of the hosts.
func Kind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "metal3.io", Version: "v1alpha1", Kind: "BareMetalHost"}
}

// Switch is a machine whose power a BareMetalHost has. It is safe for concurrent use.
type Switch struct {
	api client.Client
	is  v1alpha1.BareMetalHostReference
}

// New returns the switch. The client is for the cluster of the host, and reads from the API server, not from a
// cache. It asks nothing yet.
func New(api client.Client, host v1alpha1.BareMetalHostReference) *Switch { return &Switch{api, host} }

// Host returns the host: what the switch is found by again.
func (s *Switch) Host() v1alpha1.BareMetalHostReference { return s.is }

// String returns the host.
func (s *Switch) String() string { return "BareMetalHost " + s.is.Namespace + "/" + s.is.Name }

// host is what is known of one.
type host struct {
	*unstructured.Unstructured
	reading power.Reading
}

// Read returns what the host says of its machine, and of its power.
func (s *Switch) Read(ctx context.Context, machine power.UUID) (power.Reading, error) {
	h, err := s.read(ctx, machine)
	return h.reading, err
}

// read returns the host if it is that of the machine, and the operator looks after it. What it says is
// Reported, also with an error.
func (s *Switch) read(ctx context.Context, machine power.UUID) (host, error) {
	h, err := s.find(ctx, machine)
	if err == nil {
		err = s.lookedAfter(h)
	}
	if err != nil {
		return host{Unstructured: h.Unstructured, reading: power.Reading{Reported: true}}, err
	}
	on, _, _ := unstructured.NestedBool(h.Object, "status", "poweredOn")
	h.reading.Power = power.Off
	if on {
		h.reading.Power = power.On
	}
	return h, nil
}

// find returns the host if it is that of the machine.
func (s *Switch) find(ctx context.Context, machine power.UUID) (h host, err error) {
	h.Unstructured = &unstructured.Unstructured{}
	h.SetGroupVersionKind(Kind())
	if err := s.api.Get(ctx, types.NamespacedName{Namespace: s.is.Namespace, Name: s.is.Name}, h.Unstructured); err != nil {
		return h, s.failed("reading it", err)
	}
	text, said := h.GetAnnotations()[UUIDAnnotation]
	if !said {
		return h, fmt.Errorf("%s: %w: it has no annotation %s with the systemUUID of its machine", s, power.ErrNoIdentity, UUIDAnnotation)
	}
	guid, err := power.ParseGUID(text)
	if err != nil {
		return h, fmt.Errorf("%s: %w: annotation %s: %w", s, power.ErrNoIdentity, UUIDAnnotation, err)
	}
	if power.UUID(guid) != machine { // people write it, so it is in one order
		if err = power.Check(guid, machine); err == nil {
			err = fmt.Errorf("%w: its annotation %s is %s, whose bytes are in another order than those of the node's systemUUID, %s", power.ErrOtherMachine, UUIDAnnotation, guid, machine)
		}
		return h, fmt.Errorf("%s: %w", s, err)
	}
	h.reading = power.Reading{GUID: guid, Reported: true}
	return h, nil
}

func (s *Switch) lookedAfter(h host) error {
	if err := h.lookedAfter(); err != nil {
		return fmt.Errorf("%s: %w: %w", s, power.ErrNoAnswer, err)
	}
	return nil
}

// lookedAfter says why what the host says may be old, or what is asked of it not done; nil: it is as the
// operator has seen it last.
func (h host) lookedAfter() error {
	for _, annotation := range []string{"baremetalhost.metal3.io/paused", "baremetalhost.metal3.io/detached"} {
		if _, has := h.GetAnnotations()[annotation]; has {
			return fmt.Errorf("it has the annotation %s, so nobody looks after it", annotation)
		}
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(h.Object, append([]string{"status"}, fields...)...)
		return value
	}
	if state := text("provisioning", "state"); state != "provisioned" && state != "externally provisioned" {
		return fmt.Errorf("its state is %q: only a host that is provisioned, or externally, is switched by annotations", state)
	}
	if text("operationalStatus") == "error" && text("errorType") == "power management error" {
		return fmt.Errorf("the operator can't read or switch its power: %s", text("errorMessage"))
	}
	if _, known, err := unstructured.NestedBool(h.Object, "status", "poweredOn"); !known || err != nil {
		return errors.New("it has no status.poweredOn")
	}
	return nil
}

// Off has the operator switch the machine off, and keep it so. It is acknowledged when that is written,
// and happens later.
func (s *Switch) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	h, err := s.read(ctx, machine)
	if err != nil || h.GetAnnotations()[OffAnnotation] == AtOnce {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return s.patch(ctx, h, operation{Op: "add", Path: pathOf(OffAnnotation), Value: AtOnce})
}

// On has the operator keep the machine off no more, which switches it on. The annotation is taken away
// also where the operator does not look after the host now: it would be heeded when it does again.
func (s *Switch) On(ctx context.Context, machine power.UUID, still power.Still) error {
	h, err := s.find(ctx, machine)
	if err != nil {
		return err
	}
	if _, ours := h.GetAnnotations()[OffAnnotation]; ours {
		if err := still.Holds(ctx); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if err := s.patch(ctx, h, operation{Op: "remove", Path: pathOf(OffAnnotation)}); err != nil {
			return err
		}
	}
	var others []string
	for annotation := range h.GetAnnotations() {
		if strings.HasPrefix(annotation, keptOff) && annotation != OffAnnotation {
			others = append(others, annotation)
		}
	}
	online, _, _ := unstructured.NestedBool(h.Object, "spec", "online")
	switch {
	case len(others) > 0:
		slices.Sort(others)
		return fmt.Errorf("%s: others keep it off, by the annotations %s", s, strings.Join(others, ", "))
	case !online:
		return fmt.Errorf("%s: its spec.online is false, so it stays off", s)
	}
	return s.lookedAfter(h)
}

// Shutdown is nothing that it can be asked for: its operator cuts the power of what has not shut down
// after some minutes.
func (s *Switch) Shutdown(context.Context, power.UUID, power.Still) error {
	return fmt.Errorf("%s: %w: it can't ask an operating system to shut down without cutting its power later", s, power.ErrUnsupported)
}

// Identify is nothing that it can be asked for.
func (s *Switch) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, fmt.Errorf("%s: %w: it has no light", s, power.ErrUnsupported)
}

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func pathOf(annotation string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(strings.ReplaceAll(annotation, "~", "~0"), "/", "~1")
}

// patch changes one annotation, if the host is still the one that was read, of the same machine.
func (s *Switch) patch(ctx context.Context, h host, change operation) error {
	data, err := json.Marshal([]operation{
		{Op: "test", Path: "/metadata/uid", Value: h.GetUID()},
		{Op: "test", Path: pathOf(UUIDAnnotation), Value: h.GetAnnotations()[UUIDAnnotation]},
		change,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := s.api.Patch(ctx, h.DeepCopy(), client.RawPatch(types.JSONPatchType, data), client.FieldOwner(fieldManager)); err != nil {
		return s.failed("changing its annotation "+OffAnnotation, err)
	}
	return nil
}

// failed is what a request has failed with.
func (s *Switch) failed(what string, err error) error {
	kind := power.ErrNoAnswer
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		kind = power.ErrLogin
	}
	return fmt.Errorf("%s: %s: %w: %w", s, what, kind, err)
}
