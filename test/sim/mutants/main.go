// Program mutants breaks the product on purpose, in one place after the other, and shows
// how many seeds the simulation takes to notice it. It fails if it does not notice one.
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
	// dir is for what is built, base the simulation of the product as it is.
	dir, base string
}

// built is a mutant that is ready to be searched.
type built struct {
	mutant
	binary string
	err    error
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
	if p.dir, err = os.MkdirTemp("", "mutants-*"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(p.dir) }()
	p.base = filepath.Join(p.dir, "sim.test")
	if err := build(ctx, p.base); err != nil {
		return err
	}
	// The next one is built while one is searched.
	ready := make(chan built)
	go func() {
		defer close(ready)
		for _, m := range mutants {
			if !chosen.MatchString(m.name) {
				continue
			}
			b := p.build(ctx, m)
			select {
			case ready <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	var survivors []string
	for b := range ready {
		caught, line, err := p.search(ctx, b)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			line = err.Error()
		}
		fmt.Printf("%-34s %s\n%34s %s\n", b.name, line, "", b.why)
		if !caught {
			survivors = append(survivors, b.name)
		}
		_ = os.Remove(b.binary)
	}
	if survivors != nil {
		return fmt.Errorf("%d survive %d seeds or do not build, so nothing would notice these mistakes: %s", len(survivors), p.seeds, strings.Join(survivors, ", "))
	}
	return nil
}

// build builds the simulation of a broken product.
func (p *program) build(ctx context.Context, m mutant) built {
	b := built{mutant: m, binary: filepath.Join(p.dir, m.name+".test")}
	b.err = func() error {
		replace := map[string]string{}
		for i, c := range m.changes {
			changed, err := c.mutate(".")
			if err != nil {
				return err
			}
			original, err := filepath.Abs(c.file)
			if err != nil {
				return err
			}
			replace[original] = filepath.Join(p.dir, fmt.Sprintf("%s-%d.go", m.name, i))
			if err := os.WriteFile(replace[original], []byte(changed), 0o600); err != nil {
				return err
			}
		}
		data, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return err
		}
		overlay := filepath.Join(p.dir, m.name+".json")
		if err := os.WriteFile(overlay, data, 0o600); err != nil {
			return err
		}
		return build(ctx, b.binary, "-overlay", overlay)
	}()
	return b
}

func build(ctx context.Context, binary string, more ...string) error {
	arguments := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, more...)
	output, err := exec.CommandContext(ctx, "go", append(arguments, "./test/sim")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the simulation: %w\n%s", err, output)
	}
	return nil
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
func (p *program) search(ctx context.Context, b built) (caught bool, line string, err error) {
	if b.err != nil {
		return false, "", b.err
	}
	began := time.Now()
	for next := p.first; next < p.first+uint64(p.seeds); {
		r, err := p.play(ctx, b, next)
		if err != nil {
			return false, "", err
		}
		if len(r.Found) == 0 {
			break
		}
		found := r.Found[0]
		if exec.CommandContext(ctx, p.base, "-test.run=^TestSearch$", fmt.Sprintf("-sim.seed=%d", found.First.Seed)).Run() != nil {
			next = found.First.Seed + 1 // this is so without the mutant, too
			continue
		}
		return true, fmt.Sprintf("%6d seeds, %5.0f s: %s", found.First.Seed-p.first+1, time.Since(began).Seconds(), found.Rule), nil
	}
	return false, fmt.Sprintf("SURVIVES %d seeds, %.0f s", p.seeds, time.Since(began).Seconds()), ctx.Err()
}

func (p *program) play(ctx context.Context, b built, first uint64) (r report, err error) {
	file := filepath.Join(p.dir, b.name+".report")
	command := exec.CommandContext(ctx, b.binary, "-test.run=^TestSearch$", "-sim.stop", "-sim.report="+file,
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
