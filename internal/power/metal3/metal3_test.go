package metal3

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
)

const uuid = "4c4c4544-0032-3810-8052-b4c04f4a5731"

var machine = power.UUID{0x4c, 0x4c, 0x45, 0x44, 0x00, 0x32, 0x38, 0x10, 0x80, 0x52, 0xb4, 0xc0, 0x4f, 0x4a, 0x57, 0x31}

// newHost is a host that is on, as the operator has it.
func newHost(changes ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	h := &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"online": true},
		"status": map[string]any{"poweredOn": true, "operationalStatus": "OK", "provisioning": map[string]any{"state": "provisioned"}},
	}}
	h.SetGroupVersionKind(Kind())
	h.SetNamespace("hosts")
	h.SetName("bmh-7")
	h.SetUID("u")
	h.SetAnnotations(map[string]string{UUIDAnnotation: uuid, "example.com/rack": "7"})
	for _, change := range changes {
		change(h)
	}
	return h
}

// annotated has an annotation; without a value it has none.
func annotated(name, value string) func(*unstructured.Unstructured) {
	return func(h *unstructured.Unstructured) {
		all := maps.Clone(h.GetAnnotations())
		all[name] = value
		if value == "" {
			delete(all, name)
		}
		h.SetAnnotations(all)
	}
}

// set has a field.
func set(value any, fields ...string) func(*unstructured.Unstructured) {
	return func(h *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(h.Object, value, fields...); err != nil {
			h.SetName("not-" + err.Error())
		}
	}
}

// open is the switch of a host, and what reads its annotations.
func open(t *testing.T, calls interceptor.Funcs, hosts ...client.Object) (*Switch, func() map[string]string) {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(Kind(), &unstructured.Unstructured{})
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(hosts...).WithInterceptorFuncs(calls).Build()
	return New(api, v1alpha1.BareMetalHostReference{Namespace: "hosts", Name: "bmh-7"}), func() map[string]string {
		t.Helper()
		h := newHost()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(h), h); err != nil {
			t.Fatal(err)
		}
		return h.GetAnnotations()
	}
}

func TestAHostIsReadAsItsOperatorHasReadIt(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   power.State
		kind   error
		says   string
	}{
		"on":                        {change: set(true, "status", "poweredOn"), want: power.On},
		"off":                       {change: set(false, "status", "poweredOn"), want: power.Off},
		"externally provisioned":    {change: set("externally provisioned", "status", "provisioning", "state"), want: power.On},
		"another error":             {change: set("error", "status", "operationalStatus"), want: power.On},
		"it names no machine":       {change: annotated(UUIDAnnotation, ""), kind: power.ErrNoIdentity, says: UUIDAnnotation},
		"it names none":             {change: annotated(UUIDAnnotation, "bmh-7"), kind: power.ErrNoIdentity, says: "is no UUID"},
		"of another machine":        {change: annotated(UUIDAnnotation, "4c4c4544-0032-3810-8052-b4c04f4a5732"), kind: power.ErrOtherMachine},
		"bytes in another order":    {change: annotated(UUIDAnnotation, "44454c4c-3200-1038-8052-b4c04f4a5731"), kind: power.ErrOtherMachine, says: "another order"},
		"paused":                    {change: annotated("baremetalhost.metal3.io/paused", "x"), kind: power.ErrNoAnswer, says: "nobody looks after it"},
		"detached":                  {change: annotated("baremetalhost.metal3.io/detached", "x"), kind: power.ErrNoAnswer, says: "nobody looks after it"},
		"being deprovisioned":       {change: set("deprovisioning", "status", "provisioning", "state"), kind: power.ErrNoAnswer, says: "deprovisioning"},
		"nobody has read its power": {change: func(h *unstructured.Unstructured) { unstructured.RemoveNestedField(h.Object, "status", "poweredOn") }, kind: power.ErrNoAnswer, says: "status.poweredOn"},
		"its BMC does not answer": {change: func(h *unstructured.Unstructured) {
			set("error", "status", "operationalStatus")(h)
			set("power management error", "status", "errorType")(h)
			set("BMC is away", "status", "errorMessage")(h)
		}, kind: power.ErrNoAnswer, says: "BMC is away"},
	} {
		t.Run(name, func(t *testing.T) {
			s, annotations := open(t, interceptor.Funcs{}, newHost(test.change))
			before := annotations()
			got, err := s.Read(t.Context(), machine)
			if test.kind == nil {
				if err != nil || got.Power != test.want || !got.Reported || power.UUID(got.GUID) != machine {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), "BareMetalHost hosts/bmh-7: ") || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %v, %s", err, test.kind, test.says)
			}
			for what, turn := range map[string]func(context.Context, power.UUID, power.Still) error{"off": s.Off, "on": s.On} {
				if err := turn(t.Context(), machine, nil); !errors.Is(err, test.kind) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			if after := annotations(); !maps.Equal(before, after) {
				t.Errorf("it is switched: %v", after)
			}
		})
	}
}

func TestAMachineIsOffAsLongAsItsAnnotationIsThere(t *testing.T) {
	s, annotations := open(t, interceptor.Funcs{}, newHost())
	want := annotations()
	want[OffAnnotation] = AtOnce
	for range 2 { // each may be repeated
		if err := s.Off(t.Context(), machine, nil); err != nil || !maps.Equal(annotations(), want) {
			t.Fatalf("%v: %v", err, annotations())
		}
	}
	delete(want, OffAnnotation)
	for range 2 {
		if err := s.On(t.Context(), machine, nil); err != nil || !maps.Equal(annotations(), want) {
			t.Fatalf("%v: %v", err, annotations())
		}
	}
}

func TestAHostIsNotToldWhatIsNotToBeAnyMore(t *testing.T) {
	for name, off := range map[string]bool{"off": true, "on": false} {
		var changes []func(*unstructured.Unstructured)
		if !off {
			changes = append(changes, annotated(OffAnnotation, AtOnce))
		}
		s, annotations := open(t, interceptor.Funcs{}, newHost(changes...))
		before, turn := annotations(), s.On
		if off {
			turn = s.Off
		}
		err := turn(t.Context(), machine, func(context.Context) error { return errors.New("held by people") })
		if !errors.Is(err, power.ErrNotSent) || !maps.Equal(before, annotations()) {
			t.Errorf("%s: got %v, and %v", name, err, annotations())
		}
	}
}

func TestWhatOthersKeepOffStaysOff(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*unstructured.Unstructured)
		says   string
	}{
		"by their annotation": {annotated("reboot.metal3.io/theirs", "{}"), "others keep it off, by the annotations reboot.metal3.io/theirs"},
		"by its spec":         {set(false, "spec", "online"), "spec.online is false"},
	} {
		s, annotations := open(t, interceptor.Funcs{}, newHost(test.change, annotated(OffAnnotation, AtOnce)))
		want := annotations()
		delete(want, OffAnnotation)
		if err := s.On(t.Context(), machine, nil); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v", name, err)
		}
		if got := annotations(); !maps.Equal(got, want) {
			t.Errorf("%s: left with %v", name, got)
		}
	}
}

// Nobody would take it away any more, and the operator heeds it when it looks after the host again.
func TestAnOffIsTakenBackWhereNobodyLooksAfterTheHost(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"paused":   annotated("baremetalhost.metal3.io/paused", "x"),
		"detached": annotated("baremetalhost.metal3.io/detached", "x"),
		"its BMC does not answer": func(h *unstructured.Unstructured) {
			set("error", "status", "operationalStatus")(h)
			set("power management error", "status", "errorType")(h)
		},
		"never read":          func(h *unstructured.Unstructured) { unstructured.RemoveNestedField(h.Object, "status", "poweredOn") },
		"being deprovisioned": set("deprovisioning", "status", "provisioning", "state"),
	} {
		s, annotations := open(t, interceptor.Funcs{}, newHost(change, annotated(OffAnnotation, AtOnce)))
		if r, err := s.Read(t.Context(), machine); err == nil || !r.Reported {
			t.Errorf("%s: got %+v, %v", name, r, err)
		}
		if err := s.On(t.Context(), machine, nil); !errors.Is(err, power.ErrNoAnswer) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, stands := annotations()[OffAnnotation]; stands {
			t.Errorf("%s: the off stands", name)
		}
	}
}

func TestAHostThatWasExchangedSinceItWasReadIsNotSwitched(t *testing.T) {
	for name, exchange := range map[string]func(*unstructured.Unstructured){
		"another one of its name": func(h *unstructured.Unstructured) { h.SetUID("v") },
		"of another machine":      annotated(UUIDAnnotation, "4c4c4544-0032-3810-8052-b4c04f4a5732"),
	} {
		s, annotations := open(t, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				h := newHost(exchange)
				if err := errors.Join(c.Delete(ctx, newHost()), c.Create(ctx, h)); err != nil {
					return err
				}
				return c.Patch(ctx, obj, patch, opts...)
			},
		}, newHost())
		if err := s.Off(t.Context(), machine, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, off := annotations()[OffAnnotation]; off {
			t.Errorf("%s: it is switched off", name)
		}
	}
}

func TestWhatTheAPIServerRefusesIsSaid(t *testing.T) {
	resource := schema.GroupResource{Group: "metal3.io", Resource: "baremetalhosts"}
	for answer, want := range map[error]error{
		apierrors.NewForbidden(resource, "bmh-7", errors.New("no")): power.ErrLogin,
		apierrors.NewNotFound(resource, "bmh-7"):                    power.ErrNoAnswer,
		context.DeadlineExceeded:                                    power.ErrNoAnswer,
	} {
		s, _ := open(t, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return answer
		}})
		if _, err := s.Read(t.Context(), machine); !errors.Is(err, want) {
			t.Errorf("%v: got %v", answer, err)
		}
	}
	s, _ := open(t, interceptor.Funcs{}, newHost())
	if err := s.Shutdown(t.Context(), machine, nil); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Identify(t.Context(), machine, true); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
