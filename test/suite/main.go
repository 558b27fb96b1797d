// Command suite runs the tests in tiers, one after the other, and tells how long each
// took:
//
//   - unit: packages whose tests need nothing but Go,
//   - api: packages that need a control plane. Those that can share one do,
//   - host: packages that need programs of this machine, or root. Nothing of the other
//     tiers runs beside them.
//
// A package is in one tier, with all of its tests:
//
//	go run ./test/suite [-tier unit,api,host] [package …]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodemend/nodemend/test/cluster"
	"github.com/nodemend/nodemend/test/cluster/clustertest"
)

const module = "github.com/nodemend/nodemend/"

// tag is the build tag of tests that need more than Go.
const tag = "integration"

// A hang is found by go test, which then prints all goroutines.
const timeout = "-timeout=1h"

// host are the packages whose tests start programs of this machine, often as root:
// containerd, a kubelet, systemd, ipmi_sim, Prometheus, Nova, the programs of this module, and of
// others that it lives beside. They
// tell what is late from what is lost by the clock on the wall.
var host = []string{
	"checks/clock", "checks/detector", "checks/exhaustion", "checks/filesystem", "checks/gpu", "checks/hardware", "checks/network", "checks/remote", "checks/services", "checks/tasks",
	"internal/hostunits", "internal/systemd",
	"ipmi", "ipmi/device", "ipmi/ipmitool", "ipmi/lan", "ipmi/remote", "ipmi/verdict", "internal/power/ipmilan", "internal/power/program", "internal/power/proof",
	"runner", "runner/command", "runner/reboot", "runner/unit",
	"test/cluster", "test/demo", "test/interop", "test/ipmisim", "test/kubelet", "test/monitoring", "test/newcomer", "test/npd", "test/openstack/nova", "test/systemd",
}

// long are packages that are best begun first.
var long = []string{
	"test/sim", "checks/systemlog", "checks/containerruntime",
	"test/integration", "controller/maintenance", "deploy", "cmd/kubectl-nodemend",
	"test/interop", "test/newcomer", "runner", "checks/remote", "checks/detector", "runner/command", "runner/unit", "test/monitoring",
}

func main() {
	tiers := flag.String("tier", "unit,api,host", "the `tiers` to run, in this order")
	flag.Parse()
	log.SetLogger(logr.Discard()) // of the libraries that install the CRDs
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, strings.Split(*tiers, ","), flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

// run runs the tiers of the packages; a failure in one does not keep the next from being
// run.
func run(ctx context.Context, names, packages []string) error {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	tiers, err := split(ctx, packages)
	if err != nil {
		return err
	}
	var errs []error
	var report strings.Builder
	for _, name := range names {
		began, used := time.Now(), processorTime()
		t, known := tiers[name]
		if !known {
			return fmt.Errorf("there is no tier %q: unit, api and host are", name)
		}
		if len(t.packages) == 0 {
			continue
		}
		fmt.Printf("=== %s, %d packages\n", name, len(t.packages))
		result := "passed"
		if err := t.run(ctx, t.packages); err != nil {
			result = "FAILED"
			errs = append(errs, fmt.Errorf("tier %s: %w", name, err))
		}
		fmt.Fprintf(&report, "  %-5s %3d packages  %-7s %s  %s\n", name, len(t.packages), result, minutes(time.Since(began)), minutes(processorTime()-used))
	}
	fmt.Printf("tiers, minutes:seconds that passed, and of processor time\n%s", report.String())
	tellMissing()
	return errors.Join(errs...)
}

// tellMissing says why test/interop could not run the programs of others, if it could not: go test does
// not print what is skipped.
func tellMissing() {
	if why, err := os.ReadFile("bin/interop/missing"); err == nil {
		fmt.Printf("skipped: tests beside Cluster API and Karpenter, which can't be had: %s\n", why)
	}
}

// processorTime returns what all programs that were started and have ended have used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0 // there is none to tell
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func minutes(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%2d:%02d", s/60, s%60)
}

// tier is a set of packages, and how their tests are run.
type tier struct {
	packages []string
	run      func(ctx context.Context, packages []string) error
}

// split finds out to which tier the packages belong.
func split(ctx context.Context, packages []string) (map[string]*tier, error) {
	tiers := map[string]*tier{"unit": {run: unit}, "api": {run: api}, "host": {run: api}}
	bare, err := tests(ctx, packages)
	if err != nil {
		return nil, err
	}
	tagged, err := tests(ctx, packages, "-tags="+tag)
	if err != nil {
		return nil, err
	}
	for name, files := range tagged {
		t := "api"
		switch {
		case files == bare[name]:
			t = "unit"
		case slices.Contains(host, strings.TrimPrefix(name, module)):
			t = "host"
		}
		tiers[t].packages = append(tiers[t].packages, name)
	}
	for _, t := range tiers {
		slices.SortFunc(t.packages, func(a, b string) int {
			if first := rank(a) - rank(b); first != 0 {
				return first
			}
			return strings.Compare(a, b)
		})
	}
	return tiers, nil
}

// rank is the place of a package among those that take long, or else one after them.
func rank(name string) int {
	if i := slices.Index(long, strings.TrimPrefix(name, module)); i >= 0 {
		return i
	}
	return len(long)
}

// tests returns the files with tests of each package that has any.
func tests(ctx context.Context, packages []string, flags ...string) (map[string]string, error) {
	args := slices.Concat([]string{"list", "-f", "{{.ImportPath}} {{.TestGoFiles}}{{.XTestGoFiles}}"}, flags, packages)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, files, _ := strings.Cut(strings.TrimSpace(line), " ")
		if files != "[][]" {
			found[name] = files
		}
	}
	return found, nil
}

func unit(ctx context.Context, packages []string) error { return test(ctx, nil, packages) }

// api runs tests with a control plane that packages can share.
func api(ctx context.Context, packages []string) error {
	return together(ctx, func(env string) error {
		return test(ctx, []string{env}, packages, "-tags="+tag)
	})
}

// together calls use with the environment variable by which packages find the control
// plane that they share.
func together(ctx context.Context, use func(env string) error) error {
	c, err := cluster.Start(ctx, clustertest.Together())
	if err != nil {
		return err
	}
	return errors.Join(use(clustertest.Env+"="+c.Kubeconfig), c.Stop())
}

// beside is how many packages are tested at a time. Most of them wait more than they
// compute: for timeouts, and for programs to notice something.
func beside() string { return fmt.Sprintf("-p=%d", 2*runtime.NumCPU()) }

// test runs go test. It is asked to end with the context, and ends its tests itself.
func test(ctx context.Context, env, packages []string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-race", timeout, beside()}, flags, packages)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	return cmd.Run()
}
