//go:build integration

package nova

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	played "github.com/nodemend/nodemend/test/openstack"
	debian "github.com/nodemend/nodemend/test/openstack/nova"
)

func TestARealNovaStopsAndStartsAServerWithAProof(t *testing.T) {
	cloud := played.Start(t)
	nova := debian.Start(t)
	cloud.Compute, cloud.Token = nova.URL(), debian.Token
	id, other := nova.Server("worker-1"), nova.Server("worker-2")
	o := of(cloud)
	o.ProviderID = "openstack:///" + id
	s := New(o)

	plan := proof.DefaultPlan()
	plan.Node, plan.BootID, plan.Machine, plan.Reader, plan.Switch = "worker-1", "1", machine(t, id), "the test", s.String()
	plan.Gap, plan.Settled = proof.MinGap, proof.MinGap
	cycle := proof.Runner{
		Clock: clock.RealClock{}, Switch: s,
		Facts: func(context.Context) (proof.Facts, error) {
			return proof.Facts{Confirmed: true, BootID: "1", Restore: true}, nil
		},
		Keep: func(context.Context, proof.Progress) error { return nil },
	}
	got, err := cycle.Run(t.Context(), plan, proof.Progress{})
	if err != nil || got.Outcome != proof.PowerCycled || got.Proof == nil || !got.Proof.Proves("worker-1", "1") {
		t.Errorf("got %+v, %v", got, err)
	}
	nova.Until(id, "ACTIVE")

	is := func(want power.State) {
		t.Helper()
		if r, err := s.Read(t.Context(), machine(t, id)); err != nil || r.Power != want {
			t.Errorf("got %+v, %v, want %s", r, err, want)
		}
	}
	act := func(body map[string]any, until string) {
		t.Helper()
		if status, answer := nova.Ask(http.MethodPost, "/servers/"+id+"/action", body); status >= 300 {
			t.Fatalf("%v: %d, %v", body, status, answer)
		}
		nova.Until(id, until)
	}
	is(power.On)
	act(map[string]any{"pause": nil}, "PAUSED")
	is(power.Changing)
	if err := s.Off(t.Context(), machine(t, id)); err == nil {
		t.Error("a paused server was stopped")
	}
	act(map[string]any{"unpause": nil}, "ACTIVE")
	act(map[string]any{"suspend": nil}, "SUSPENDED")
	is(power.Changing)
	act(map[string]any{"resume": nil}, "ACTIVE")
	for range 2 {
		if err := s.Off(t.Context(), machine(t, id)); err != nil {
			t.Error(err)
		}
	}
	nova.Until(id, "SHUTOFF")
	is(power.Off)

	if err := s.Off(t.Context(), machine(t, other)); !errors.Is(err, power.ErrOtherMachine) {
		t.Errorf("got %v", err)
	}
	nova.Until(other, "ACTIVE")
	if status, _ := nova.Ask(http.MethodDelete, "/servers/"+id, nil); status != http.StatusNoContent {
		t.Fatalf("deleted: %d", status)
	}
	nova.Gone(id)
	if _, err := s.Read(t.Context(), machine(t, id)); !errors.Is(err, power.ErrNoIdentity) {
		t.Errorf("got %v", err)
	}
}
