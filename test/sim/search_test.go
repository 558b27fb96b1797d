package sim

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

var (
	firstSeed = flag.Uint64("sim.first", 1, "first seed")
	seedCount = flag.Int("sim.seeds", 200, "number of seeds")
	oneSeed   = flag.Uint64("sim.seed", 0, "play this seed and tell its history")
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

func TestSearch(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if *oneSeed > 0 {
		r := Run(t, definitions, dir, *oneSeed, os.Stdout)
		fmt.Println(r)
		return
	}
	began := time.Now()
	reached, steps := map[string]int{}, 0
	rules := map[string]int{}
	first := map[string]Result{}
	for i := range *seedCount {
		r := Run(t, definitions, dir, *firstSeed+uint64(i), io.Writer(nil))
		steps += r.Steps
		for what, n := range r.Reached {
			reached[what] += n
		}
		if r.Violation != nil {
			rules[r.Violation.Rule]++
			if _, ok := first[r.Violation.Rule]; !ok {
				first[r.Violation.Rule] = r
			}
		}
	}
	took := time.Since(began)
	fmt.Printf("%d seeds, %d steps, %s: %.1f seeds a second, %.0f steps a second\n", *seedCount, steps, took.Truncate(time.Millisecond),
		float64(*seedCount)/took.Seconds(), float64(steps)/took.Seconds())
	for _, what := range sortedKeys(reached) {
		fmt.Printf("  %8d  %s\n", reached[what], what)
	}
	for _, rule := range sortedKeys(rules) {
		fmt.Printf("VIOLATED by %d: %s\n", rules[rule], first[rule])
	}
}

func TestASeedIsPlayedAlikeEachTime(t *testing.T) {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	for i := range *seedCount {
		seed := *firstSeed + uint64(i)
		var first, second strings.Builder
		Run(t, definitions, t.TempDir(), seed, &first)
		Run(t, definitions, t.TempDir(), seed, &second)
		if first.String() != second.String() {
			a, b := strings.Split(first.String(), "\n"), strings.Split(second.String(), "\n")
			for i := range a {
				if i >= len(b) || a[i] != b[i] {
					t.Fatalf("seed %d: line %d:\n%s\n%s", seed, i, strings.Join(a[max(0, i-3):i+1], "\n"), strings.Join(b[max(0, i-3):min(len(b), i+1)], "\n"))
				}
			}
		}
	}
}
