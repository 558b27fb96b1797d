package services

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

func check(t *testing.T, options Options) *Check {
	t.Helper()
	options.Timeout, options.Clock, options.Name = time.Minute, clock.RealClock{}, localhost
	options.Addresses = func() ([]net.Addr, error) { return nil, nil }
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARunTellsOfAllParts(t *testing.T) {
	type files = map[string]string
	well := files{"etc/cni/net.d/a.conflist": calico, "etc/resolv.conf": "nameserver 127.0.0.53\n"}
	for name, tc := range map[string]struct {
		files   files
		proxy   int
		answers error
		change  func(*Options)
		status  checks.Status
		reason  string
		message string
	}{
		"well": {
			files: well, proxy: 200, status: checks.False, reason: ReasonHealthy,
			message: "kube-proxy is healthy; pod network k8s-pod-network of /etc/cni/net.d/a.conflist; nameserver 127.0.0.53 answers",
		},
		"two faults, of which the graver counts": {
			files: files{"etc/cni/net.d/a.conflist": calico, "etc/resolv.conf": ""}, proxy: 503, status: checks.True, reason: ReasonKubeProxyStale,
			message: "has not applied a change of Services or endpoints for a minute or more; /etc/resolv.conf names no nameserver",
		},
		"a fault, and something that is not known": {
			files: files{"etc/cni/net.d": "folder", "etc/resolv.conf": "nameserver 10.0.0.2\n"}, proxy: 200, answers: context.DeadlineExceeded,
			status: checks.True, reason: ReasonNoConfig, message: "no pod network is configured in /etc/cni/net.d; no nameserver answers: 10.0.0.2",
		},
		"only something that is not known": {
			files: files{"etc/resolv.conf": "nameserver 10.0.0.2\n"}, proxy: 200, answers: context.DeadlineExceeded,
			status: checks.Unknown, reason: ReasonSilent, message: "no nameserver answers: 10.0.0.2",
		},
		"the resolver does not run": {
			files: well, proxy: 200, answers: syscall.ECONNREFUSED, status: checks.True, reason: ReasonResolverGone, message: "127.0.0.53",
		},
		"nameservers that are given": {
			files: well, proxy: 200, answers: context.DeadlineExceeded,
			change: func(o *Options) { o.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.10")} },
			status: checks.Unknown, reason: ReasonSilent, message: "no nameserver answers: 10.96.0.10",
		},
		"parts that are switched off": {
			files: files{"etc/cni/net.d": "folder"}, proxy: 503, answers: syscall.ECONNREFUSED,
			change: func(o *Options) { o.CNI, o.DNS = false, false },
			status: checks.True, reason: ReasonKubeProxyStale, message: "kube-proxy",
		},
		"nameservers alone, without the host's files": {
			proxy: 503, change: func(o *Options) {
				o.CNI, o.KubeProxy, o.Process = false, "", checks.HostProcess
				o.Nameservers = []netip.Addr{netip.MustParseAddr("10.96.0.10")}
			},
			status: checks.False, reason: ReasonHealthy, message: "nameserver 10.96.0.10 answers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(says(map[string]int{"/livez": tc.proxy}))
			defer server.Close()
			process := t.TempDir()
			host := hostWith(t, tc.files)
			if err := symlink(string(host), filepath.Join(process, "root")); err != nil {
				t.Fatal(err)
			}
			options := Options{
				KubeProxy: server.URL, CNI: true, DNS: true, Process: process,
				Ask: func(context.Context, netip.Addr, dnsmessage.Name) (dnsmessage.RCode, error) { return 0, tc.answers },
			}
			if tc.change != nil {
				tc.change(&options)
			}
			got := check(t, options).Run(t.Context())
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v\nwant %s %s: %s", got, tc.status, tc.reason, tc.message)
			}
		})
	}
}

func TestAnotherNetworkThanTheHostsTellsNothing(t *testing.T) {
	process := t.TempDir()
	if err := symlink("net:[1]", filepath.Join(process, "ns", "net")); err != nil {
		t.Fatal(err)
	}
	got := check(t, Options{KubeProxy: "http://" + nobody(t, "tcp"), KubeProxyRequired: true, Process: process}).Run(t.Context())
	if got.Status != checks.Unknown || !strings.Contains(got.Message, "hostNetwork") {
		t.Errorf("got %+v", got)
	}
}

func TestARunThatIsStoppedProvesNothing(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	got := check(t, Options{KubeProxy: "http://" + nobody(t, "tcp"), KubeProxyRequired: true, Process: t.TempDir()}).Run(ctx)
	if got.Status != checks.Unknown || got.Reason != ReasonInterrupted {
		t.Errorf("got %+v", got)
	}
}

func TestThereIsNothingToCheckIfAllIsSwitchedOff(t *testing.T) {
	_, err := New(Options{Timeout: time.Second})
	if off := (checks.Off{}); !errors.As(err, &off) {
		t.Errorf("got the error %v", err)
	}
}

// symlink makes a link, and the folder that it is in.
func symlink(to, path string) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(to, path))
}

// A panic of a goroutine that nobody guards ends the whole detector.
func TestAPanicOfANameserversAnswerIsOneOfTheCheck(t *testing.T) {
	c := check(t, Options{
		DNS: true, Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10")}, Process: t.TempDir(),
		Ask: func(context.Context, netip.Addr, dnsmessage.Name) (dnsmessage.RCode, error) {
			panic("no such mode") //nolint:forbidigo // as a library does
		},
	})
	if got := checks.Guarded(t.Context(), Kind(), c); got.Status != checks.Unknown || got.Reason != checks.ReasonCheckPanicked {
		t.Errorf("got %+v", got)
	}
}
