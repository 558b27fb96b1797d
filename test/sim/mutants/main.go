// Program mutants breaks the product on purpose, in one place after the other, and shows
// how many seeds the simulation takes to notice it. Of one that it does not notice it shows
// the unit test beside the code that does; it fails if there is none.
//
//	go run ./test/sim/mutants [-seeds 20000] [-first 1] [-run REGEXP]
//
// A mutant is a patch in this directory: a line that says what is broken, and a unified
// diff.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	p := program{}
	flag.IntVar(&p.seeds, "seeds", 20_000, "how many seeds a mutant may survive")
	flag.Uint64Var(&p.first, "first", 1, "the first seed")
	pattern := flag.String("run", ".", "run only mutants whose names match this regular expression")
	flag.Parse()
	if err := p.main(ctx, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// directory of the patches, in the module.
const directory = "test/sim/mutants"

// program is one run of the program.
type program struct {
	seeds int
	first uint64
	// dir is for what is built.
	dir string
	// together is the simulation with all mutants that can be switched on in it; without
	// one it is that of the product as it is.
	together string
}

func (p *program) main(ctx context.Context, pattern string) error {
	chosen, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	mutants, err := load(directory)
	if err != nil {
		return err
	}
	if len(mutants) == 0 {
		return fmt.Errorf("no patches in %s: run it in the module's root", directory)
	}
	mutants = slices.DeleteFunc(mutants, func(m mutant) bool { return !chosen.MatchString(m.name) })
	if p.dir, err = os.MkdirTemp("", "mutants-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(p.dir) }()
	alone, err := p.buildTogether(ctx, mutants)
	if err != nil {
		return err
	}
	var survivors []string
	for i, m := range mutants {
		caught, line, err := p.search(ctx, m, alone[m.name])
		if err == nil && !caught {
			caught, line, err = p.unitTest(ctx, m, line)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			line = err.Error()
		}
		fmt.Printf("%3d of %d %-34s %s\n%45s %s\n", i+1, len(mutants), m.name, line, "", m.why)
		if !caught {
			survivors = append(survivors, m.name)
		}
	}
	if survivors != nil {
		return fmt.Errorf("%d survive %d seeds and the unit tests, or do not build, so nothing would notice these mistakes: %s", len(survivors), p.seeds, strings.Join(survivors, ", "))
	}
	return nil
}

// buildTogether builds all mutants into one simulation, but for those that have to be
// built alone, which it returns.
func (p *program) buildTogether(ctx context.Context, mutants []mutant) (alone map[string]bool, err error) {
	s := switched{read: func(file string) (string, error) { data, err := os.ReadFile(file); return string(data), err }, files: map[string]*switchedFile{}}
	alone = map[string]bool{}
	for _, m := range mutants {
		with, err := s.add(m)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		alone[m.name] = !with
	}
	replace, err := s.overlay()
	if err != nil {
		return nil, err
	}
	p.together = filepath.Join(p.dir, "sim.test")
	return alone, p.build(ctx, p.together, replace)
}

// buildAlone builds the simulation with one mutant.
func (p *program) buildAlone(ctx context.Context, binary string, m mutant) error {
	replace := map[string]string{}
	for _, c := range m.changes {
		changed, err := c.mutate(".")
		if err != nil {
			return err
		}
		replace[c.file] = changed
	}
	return p.build(ctx, binary, replace)
}

// build builds the simulation with these files instead of the module's.
func (p *program) build(ctx context.Context, binary string, files map[string]string) error {
	overlay, err := p.overlay(files)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./test/sim")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building the simulation: %w\n%s", err, output)
	}
	return nil
}

// overlay writes what has the go command take these files instead of the module's, and returns
// its path.
func (p *program) overlay(files map[string]string) (string, error) {
	replace := map[string]string{}
	for file, content := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(p.dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(p.dir, "overlay.json")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		return "", err
	}
	return overlay, nil
}

// failed is what go test prints of a test that has failed.
var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// unitTest runs the unit tests beside the code of a mutant that survives the search.
func (p *program) unitTest(ctx context.Context, m mutant, survives string) (caught bool, line string, err error) {
	files, packages := map[string]string{}, []string{}
	for _, c := range m.changes {
		if files[c.file], err = c.mutate("."); err != nil {
			return false, "", err
		}
		packages = append(packages, "./"+filepath.Dir(c.file))
	}
	overlay, err := p.overlay(files)
	if err != nil {
		return false, "", err
	}
	slices.Sort(packages)
	output, _ := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-overlay", overlay}, slices.Compact(packages)...)...).CombinedOutput()
	if test := failed.FindSubmatch(output); test != nil {
		return true, fmt.Sprintf("%s; noticed by %s", survives, test[1]), nil
	}
	return false, survives, nil
}

// report is what a search writes.
type report struct {
	Seeds int
	Found []struct {
		Rule  string
		First struct{ Seed uint64 }
	}
}

// search looks for a seed that catches the mutant and no mistake of the product as it is.
func (p *program) search(ctx context.Context, m mutant, alone bool) (caught bool, line string, err error) {
	binary := p.together
	if alone {
		binary = filepath.Join(p.dir, m.name+".test")
		if err := p.buildAlone(ctx, binary, m); err != nil {
			return false, "", err
		}
		defer func() { _ = os.Remove(binary) }()
	}
	began := time.Now()
	for next := p.first; next < p.first+uint64(p.seeds); {
		r, err := p.play(ctx, binary, m.name, next)
		if err != nil {
			return false, "", err
		}
		if len(r.Found) == 0 {
			break
		}
		found := r.Found[0]
		if p.simulation(ctx, p.together, "", fmt.Sprintf("-sim.seed=%d", found.First.Seed)).Run() != nil {
			next = found.First.Seed + 1 // this is so without the mutant, too
			continue
		}
		return true, fmt.Sprintf("%6d seeds, %5.0f s: %s", found.First.Seed-p.first+1, time.Since(began).Seconds(), found.Rule), nil
	}
	return false, fmt.Sprintf("SURVIVES %d seeds, %.0f s", p.seeds, time.Since(began).Seconds()), ctx.Err()
}

// simulation is a command that plays as a mutant; "" is none of those that can be
// switched on.
func (p *program) simulation(ctx context.Context, binary, mutant string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, binary, append([]string{"-test.run=^TestSearch$"}, arguments...)...)
	command.Env = append(os.Environ(), variable+"="+mutant)
	return command
}

func (p *program) play(ctx context.Context, binary, mutant string, first uint64) (r report, err error) {
	file := filepath.Join(p.dir, "report.json")
	command := p.simulation(ctx, binary, mutant, "-sim.stop", "-sim.report="+file,
		fmt.Sprintf("-sim.first=%d", first), fmt.Sprintf("-sim.seeds=%d", p.first+uint64(p.seeds)-first))
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, os.Stderr
	failed := command.Run() // which a violation makes it do
	data, err := os.ReadFile(file)
	if err != nil {
		return r, fmt.Errorf("searching: %w\n%s", errors.Join(failed, err), &output)
	}
	_ = os.Remove(file)
	err = json.Unmarshal(data, &r)
	return r, err
}
