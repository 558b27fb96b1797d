package nova

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/internal/openstack"
	"github.com/nodemend/nodemend/internal/power"
	played "github.com/nodemend/nodemend/test/openstack"
)

const (
	one   = "4c4c4544-0032-3810-8052-b4c04f4a5731"
	other = "4c4c4544-0032-3810-8052-b4c04f4a5732"
)

func machine(t *testing.T, text string) power.UUID {
	t.Helper()
	u, err := power.ParseUUID(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func of(c *played.Cloud) Options {
	return Options{Cloud: openstack.Cloud{File: c.File(), Name: "openstack"}, Name: "worker-1", ProviderID: "openstack:///" + one}
}

func TestAServerIsOffOnlyIfNovaAndItsHypervisorSaySo(t *testing.T) {
	cloud := played.Start(t, played.Active(one, "Worker-1"))
	server := cloud.Servers[one]
	for _, test := range []struct {
		status, vm, task string
		power            int
		want             power.State
	}{
		{"ACTIVE", "active", "", 1, power.On},
		{"ACTIVE", "active", "powering-off", 1, power.Changing},
		{"ACTIVE", "active", "image_snapshot", 1, power.On},
		{"SHUTOFF", "stopped", "", 4, power.Off},
		{"SHUTOFF", "stopped", "powering-on", 4, power.Changing},
		{"SHUTOFF", "stopped", "", 1, power.Changing}, // somebody has started it behind Nova's back
		{"SHUTOFF", "stopped", "", 0, power.Changing}, // the hypervisor does not say
		{"ACTIVE", "active", "", 4, power.Changing},
		{"REBOOT", "active", "rebooting", 1, power.Changing},
		{"SUSPENDED", "suspended", "", 4, power.Changing}, // its boot goes on
		{"PAUSED", "paused", "", 3, power.Changing},
		{"SHELVED_OFFLOADED", "shelved_offloaded", "", 4, power.Changing},
		{"RESCUE", "rescued", "", 1, power.Changing},
		{"SOFT_DELETED", "soft-delete", "", 4, power.Changing},
		{"ERROR", "error", "", 0, power.Changing},
		{"VERIFY_RESIZE", "resized", "", 4, power.Changing},
	} {
		server.Status, server.VMState, server.TaskState, server.Power = test.status, test.vm, test.task, test.power
		reading, err := New(of(cloud)).Read(t.Context(), machine(t, one))
		if err != nil || reading.Power != test.want || reading.GUID.String() != one {
			t.Errorf("%+v: got %+v, %v", test, reading, err)
		}
	}
}

func TestAServerIsStoppedAndStartedAndNoOtherOne(t *testing.T) {
	cloud := played.Start(t, played.Active(one, "worker-1"), played.Active(other, "worker-2"))
	s := New(of(cloud))
	for _, do := range []func() error{
		func() error { return s.Off(t.Context(), machine(t, one), nil) },
		func() error { return s.Off(t.Context(), machine(t, one), nil) }, // it is off
		func() error { return s.On(t.Context(), machine(t, one), nil) },
		func() error { return s.On(t.Context(), machine(t, one), nil) },
	} {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	if got, want := cloud.Calls(), []string{"os-stop worker-1", "os-start worker-1"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := s.Shutdown(t.Context(), machine(t, one), nil); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Identify(t.Context(), machine(t, one), true); !errors.Is(err, power.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestNovaIsNotToldWhatIsNotToBeAnyMore(t *testing.T) {
	cloud := played.Start(t, played.Active(one, "worker-1"))
	err := New(of(cloud)).Off(t.Context(), machine(t, one), func(context.Context) error { return errors.New("held by people") })
	if got := cloud.Calls(); !errors.Is(err, power.ErrNotSent) || len(got) > 0 {
		t.Errorf("got %v, and it was told %v", err, got)
	}
}

// The compute service takes its time, or is dead. Nova refuses a second os-stop meanwhile.
func TestAnOffThatIsUnderWayIsNoFault(t *testing.T) {
	cloud := played.Start(t, played.Active(one, "worker-1"))
	cloud.Sleepy = true
	s := New(of(cloud))
	for range 2 {
		if err := s.Off(t.Context(), machine(t, one), nil); err != nil {
			t.Error(err)
		}
		if r, err := s.Read(t.Context(), machine(t, one)); err != nil || r.Power != power.Changing {
			t.Errorf("got %+v, %v", r, err)
		}
	}
	if err := s.On(t.Context(), machine(t, one), nil); !errors.Is(err, openstack.ErrRefused) || !strings.Contains(err.Error(), "task_state powering-off") {
		t.Errorf("it is on its way off, and on was answered with %v", err)
	}
	if got := cloud.Calls(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
}

func TestNothingIsSwitchedOfAnotherMachine(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*played.Cloud, *Options)
		machine string
		want    error
		says    string
	}{
		"a node that says the systemUUID of another's server": {func(c *played.Cloud, o *Options) { c.Servers[other].Name, o.ProviderID = "worker-2", "" }, other, power.ErrOtherMachine, `has the name "worker-2"`},
		"a systemUUID that is not the server's":               {func(*played.Cloud, *Options) {}, other, power.ErrOtherMachine, "names server " + one + ", and its systemUUID is " + other},
		"a node of another cloud":                             {func(_ *played.Cloud, o *Options) { o.ProviderID = "aws:///eu/i-1" }, one, power.ErrNoIdentity, `spec.providerID of the node is "aws:///eu/i-1"`},
		"a server that is gone":                               {func(c *played.Cloud, _ *Options) { delete(c.Servers, one) }, one, power.ErrNoIdentity, "Was it deleted"},
		"a server with another name":                          {func(c *played.Cloud, _ *Options) { c.Servers[one].Name = "bastion" }, one, power.ErrOtherMachine, `has the name "bastion"`},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := played.Start(t, played.Active(one, "worker-1"), played.Active(other, "worker-2"))
			o := of(cloud)
			test.change(cloud, &o)
			s := New(o)
			_, err := s.Read(t.Context(), machine(t, test.machine))
			for _, err := range []error{err, s.Off(t.Context(), machine(t, test.machine), nil), s.On(t.Context(), machine(t, test.machine), nil)} {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got %v, want %v: %s", err, test.want, test.says)
				}
			}
			if got := cloud.Calls(); len(got) != 0 {
				t.Errorf("sent: %v", got)
			}
		})
	}
}

func TestWhatDoesNotAnswerOrRefusesIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*played.Cloud)
		want   error
	}{
		"a secret that is wrong":     {func(c *played.Cloud) { c.Credential("wrong") }, power.ErrLogin},
		"rights that are missing":    {func(c *played.Cloud) { c.Before = func(string) int { return http.StatusForbidden } }, power.ErrLogin},
		"Nova is broken":             {func(c *played.Cloud) { c.Before = func(string) int { return http.StatusServiceUnavailable } }, power.ErrNoAnswer},
		"a request that it can't do": {func(c *played.Cloud) { c.Before = func(string) int { return http.StatusConflict } }, openstack.ErrRefused},
		"a redirect is not followed": {func(c *played.Cloud) { c.Before = func(string) int { return http.StatusFound } }, openstack.ErrRefused},
		"no clouds.yaml":             {func(c *played.Cloud) { _ = os.Remove(c.File()) }, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := played.Start(t, played.Active(one, "worker-1"))
			test.change(cloud)
			_, err := New(of(cloud)).Read(t.Context(), machine(t, one))
			if !errors.Is(err, test.want) || strings.Contains(err.Error(), played.Secret) || strings.Contains(err.Error(), "wrong") {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
