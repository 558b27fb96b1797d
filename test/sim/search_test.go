package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/nodemend/nodemend/deploy"
	"github.com/nodemend/nodemend/test/apiserver"
)

// What is searched. Without flags a few seeds are played in this process.
var (
	firstSeed = flag.Uint64("sim.first", 1, "the first seed")
	seedCount = flag.Int("sim.seeds", 0, "search so many seeds, in a process for each core")
	searchFor = flag.Duration("sim.for", 0, "search for so long")
	stopEarly = flag.Bool("sim.stop", false, "end the search with the first violation, and do not shrink it")
	oneSeed   = flag.Uint64("sim.seed", 0, "play this seed and tell its history")
	recorded  = flag.String("sim.choices", "", "play the run in this file and tell its history")
	outDir    = flag.String("sim.out", "", "directory for shrunk runs; empty: they are not kept")
	report    = flag.String("sim.report", "", "file for what the search has come to, as JSON; empty: none")
	serving   = flag.Bool("sim.serve", false, "play what standard input says; for the search's own processes")
)

// few is how many seeds are played without flags.
const few = 40

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	runtime.GOMAXPROCS(1)    // a bubble is fastest on one
	debug.SetGCPercent(1000) // and leaves much garbage: about 400 MB a process
	os.Exit(m.Run())
}

func define(t *testing.T) *apiserver.Definitions {
	definitions, err := apiserver.Define(deploy.CRDs)
	if err != nil {
		t.Fatal(err)
	}
	return definitions
}

func TestSearch(t *testing.T) {
	switch {
	case *serving:
		if err := Serve(t, define(t), playground(t), os.Stdin, os.Stdout); err != nil {
			t.Fatal(err)
		}
	case *oneSeed > 0:
		tellRun(t, Run(t, define(t), playground(t), *oneSeed, os.Stdout))
	case *recorded != "":
		again(t, *recorded)
	case *seedCount > 0 || *searchFor > 0:
		search(t)
	default:
		searchHere(t)
	}
}

// playground returns a directory for files of runs. It is in memory if possible: ledgers
// are synced, which takes a disk long.
func playground(t *testing.T) string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(memory, "nodemend-sim-*") //nolint:usetesting // TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// tellRun tells how a run has ended whose history was told.
func tellRun(t *testing.T, r Result) {
	fmt.Println(r)
	if r.Violation != nil {
		t.Fail()
	}
}

// again plays a run that was kept.
func again(t *testing.T, file string) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var kept Recorded
	if err := json.Unmarshal(data, &kept); err != nil {
		t.Fatalf("%s is no run that the search has kept: %v", file, err)
	}
	r := Replay(t, define(t), playground(t), kept.Choices, os.Stdout)
	r.Seed = kept.Seed
	tellRun(t, r)
}

// searchHere plays a few seeds in this process.
func searchHere(t *testing.T) {
	definitions, dir := define(t), playground(t)
	for i := range few {
		if r := Run(t, definitions, dir, *firstSeed+uint64(i), nil); r.Violation != nil {
			t.Errorf("%s\nto see its history: make sim SEED=%d", r, r.Seed)
		}
	}
}

// search plays seeds in other processes, and tells what was found.
func search(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := Search{
		First: *firstSeed, Seeds: *seedCount, For: *searchFor, Stop: *stopEarly,
		Processes: runtime.NumCPU(),
		Player: func() *exec.Cmd {
			return exec.CommandContext(t.Context(), self, "-test.run=^TestSearch$", "-sim.serve")
		},
		Progress: progress(),
	}
	if s.Seeds == 0 {
		s.Seeds = math.MaxInt
	}
	r, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	r.Tell(os.Stdout)
	for _, f := range r.Found {
		t.Fail()
		fmt.Printf("\nVIOLATED by %d seeds: %s\n  first by %s\n  to see it: make sim SEED=%d\n", f.Seeds, f.Rule, f.First, f.First.Seed)
		if f.Shrunk != nil && *outDir != "" {
			fmt.Printf("  shrunk from %d events to %d: make sim CHOICES=%s\n", f.Shrunk.Before, f.Shrunk.Events, keep(t, f.Shrunk))
		}
	}
	if *report != "" {
		write(t, *report, r)
	}
}

// keep writes a shrunk run to a file and returns its name.
func keep(t *testing.T, kept *Recorded) string {
	if err := os.MkdirAll(*outDir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(*outDir, fmt.Sprintf("%d.json", kept.Seed))
	write(t, file, kept)
	return file
}

func write(t *testing.T, file string, value any) {
	data, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// progress tells how far a search is, in one line of a terminal, else now and then; and at
// once which rule is violated for the first time.
func progress() func(Report) {
	info, err := os.Stderr.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	var told time.Time
	line := "\r\033[K"
	if !terminal {
		line = ""
	}
	violated := map[string]bool{}
	return func(r Report) {
		for _, f := range r.Found {
			if !violated[f.Rule] {
				violated[f.Rule] = true
				fmt.Fprintf(os.Stderr, "%s%s\n", line, f.First)
			}
		}
		switch {
		case terminal:
			fmt.Fprint(os.Stderr, line, r)
		case time.Since(told) > 30*time.Second:
			told = time.Now()
			fmt.Fprintln(os.Stderr, r)
		}
	}
}

func TestASeedIsPlayedAlikeEachTime(t *testing.T) {
	definitions := define(t)
	for i := range few / 4 {
		seed := *firstSeed + uint64(i)
		first := historyOf(func(out *strings.Builder) Result { return Run(t, definitions, playground(t), seed, out) })
		second := historyOf(func(out *strings.Builder) Result { return Run(t, definitions, playground(t), seed, out) })
		alike(t, seed, first, second)
	}
}

func TestChoicesArePlayedAsTheSeedThatMadeThem(t *testing.T) {
	definitions := define(t)
	for i := range few / 8 {
		seed := *firstSeed + uint64(i)
		var made []uint32
		first := historyOf(func(out *strings.Builder) Result {
			r := Run(t, definitions, playground(t), seed, out)
			made = r.choices
			return r
		})
		second := historyOf(func(out *strings.Builder) Result { return Replay(t, definitions, playground(t), made, out) })
		alike(t, seed, first, second)
	}
}

func historyOf(run func(*strings.Builder) Result) []string {
	var out strings.Builder
	run(&out)
	return strings.Split(out.String(), "\n")
}

// alike fails if two histories differ.
func alike(t *testing.T, seed uint64, first, second []string) {
	for i := range first {
		if i >= len(second) || first[i] != second[i] {
			t.Fatalf("seed %d: line %d:\n%s\n%s", seed, i, strings.Join(first[max(0, i-3):i+1], "\n"),
				strings.Join(second[min(len(second), max(0, i-3)):min(len(second), i+1)], "\n"))
		}
	}
	if len(second) > len(first) {
		t.Fatalf("seed %d: line %d is only in the second run:\n%s", seed, len(first), second[len(first)])
	}
}
