//go:build integration

package nova

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/openstack"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/nova"
	"github.com/nodemend/nodemend/internal/power/proof"
	played "github.com/nodemend/nodemend/test/openstack"
)

func TestARealNovaStopsAndStartsAServerWithAProof(t *testing.T) {
	cloud := played.Start(t)
	debian := Start(t)
	cloud.Compute, cloud.Token = debian.URL(), Token
	id, other := debian.Server("worker-1"), debian.Server("worker-2")
	login := openstack.Cloud{File: cloud.File(), Name: "openstack"}
	s := nova.New(nova.Options{Cloud: login, Name: "worker-1", ProviderID: "openstack:///" + id})
	machine := func(id string) power.UUID {
		uuid, err := power.ParseUUID(id)
		if err != nil {
			t.Fatal(err)
		}
		return uuid
	}

	plan := proof.DefaultPlan()
	plan.Node, plan.BootID, plan.Machine, plan.Reader, plan.Switch = "worker-1", "1", machine(id), "the test", s.String()
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
	debian.Until(id, "ACTIVE")

	is := func(want power.State) {
		t.Helper()
		if r, err := s.Read(t.Context(), machine(id)); err != nil || r.Power != want {
			t.Errorf("got %+v, %v, want %s", r, err, want)
		}
	}
	act := func(body map[string]any, until string) {
		t.Helper()
		if status, answer := debian.Ask(http.MethodPost, "/servers/"+id+"/action", body); status >= 300 {
			t.Fatalf("%v: %d, %v", body, status, answer)
		}
		debian.Until(id, until)
	}
	is(power.On)
	act(map[string]any{"pause": nil}, "PAUSED")
	is(power.Changing)
	if err := s.Off(t.Context(), machine(id), nil); err == nil {
		t.Error("a paused server was stopped")
	}
	act(map[string]any{"unpause": nil}, "ACTIVE")
	act(map[string]any{"suspend": nil}, "SUSPENDED")
	is(power.Changing)
	act(map[string]any{"resume": nil}, "ACTIVE")
	for range 2 {
		if err := s.Off(t.Context(), machine(id), nil); err != nil {
			t.Error(err)
		}
	}
	debian.Until(id, "SHUTOFF")
	is(power.Off)

	// The mark of a server that is to be removed.
	session, err := login.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, compute, err := session.Server(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := servers.CreateMetadatum(t.Context(), compute, id, servers.MetadatumOpts{"nodemend-replace": "a"}).Extract(); err != nil {
		t.Error(err)
	}
	if server, _, err := session.Server(t.Context(), id); err != nil || server.Metadata["nodemend-replace"] != "a" {
		t.Errorf("got %+v, %v", server, err)
	}
	if err := servers.DeleteMetadatum(t.Context(), compute, id, "nodemend-replace").ExtractErr(); err != nil {
		t.Error(err)
	}

	if err := s.Off(t.Context(), machine(other), nil); !errors.Is(err, power.ErrOtherMachine) {
		t.Errorf("got %v", err)
	}
	debian.Until(other, "ACTIVE")
	if status, _ := debian.Ask(http.MethodDelete, "/servers/"+id, nil); status != http.StatusNoContent {
		t.Fatalf("deleted: %d", status)
	}
	debian.Gone(id)
	if _, err := s.Read(t.Context(), machine(id)); !errors.Is(err, power.ErrNoIdentity) {
		t.Errorf("got %v", err)
	}
}
