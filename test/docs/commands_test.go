package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/offline"
	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/deploy"
)

var (
	object    = regexp.MustCompile("(?ms)^```yaml\n(.*?\n)```")
	shell     = regexp.MustCompile("(?ms)^ *```sh\n(.*?\n) *```")
	about     = regexp.MustCompile(`^(?:#.*\n)+`)
	target    = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	use       = regexp.MustCompile(`(?:Use:\s+|Name = )"([a-z-]+)`)
	separator = regexp.MustCompile(`\s*(?:\||&&|;)\s*`)
)

// verbs of kubectl and helm that pages use; a misspelt one is none of them.
var verbs = map[string][]string{
	"kubectl": {
		"annotate", "api-resources", "apply", "auth", "config", "cordon", "create", "delete", "describe", "diff", "drain", "edit", "events", "exec", "explain",
		"get", "krew", "label", "logs", "nodemend", "patch", "port-forward", "rollout", "scale", "taint", "top", "uncordon", "version", "wait",
	},
	"helm": {"install", "upgrade", "uninstall", "template", "get", "lint", "registry", "show"},
}

// flags before the verb that take a value.
var valued = []string{"-n", "--namespace", "--context"}

func TestEveryCommandOfThePagesIsKnown(t *testing.T) {
	known := map[string][]string{"make": submatches(target, read(t, "Makefile")), "nodemend": uses(t, "cmd/nodemend"), "plugin": uses(t, "cmd/kubectl-nodemend")}
	for program, all := range verbs {
		known[program] = all
	}
	commands := 0
	for _, page := range pages(t) {
		text := read(t, page)
		for _, block := range append(submatches(shell, text), submatches(codeSpan, fenced.ReplaceAllString(text, ""))...) {
			for line := range strings.Lines(block) {
				for _, command := range separator.Split(strings.TrimSpace(line), -1) {
					program, verb := parse(command)
					all, checked := known[program]
					if !checked || verb == strings.ToUpper(verb) || len(all) == 0 { // none, or a placeholder
						continue
					}
					commands++
					if !slices.Contains(all, verb) {
						t.Errorf("%s: %q: %s has no %s; it has %v", page, command, program, verb, all)
					}
				}
			}
		}
	}
	if commands < 20 {
		t.Errorf("found %d commands: are they still in blocks of sh?", commands)
	}
}

var paused = regexp.MustCompile(`(?m)^\s*paused:|[{,] *paused:`)

func TestEveryObjectOfThePagesIsValid(t *testing.T) {
	validator, err := offline.Load(deploy.CRDs, offline.Known{})
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, page := range pages(t) {
		for _, block := range submatches(object, read(t, page)) {
			if !strings.HasPrefix(about.ReplaceAllString(block, ""), "apiVersion: nodemend.dev/") || strings.Contains(block, "{...}") {
				continue
			}
			report := validator.Check(t.Context(), offline.File{Name: page, Data: []byte(block)})
			for _, problem := range report.Problems {
				t.Error(problem)
			}
			if paused.MatchString(block) {
				t.Errorf("%s: an apply of this lifts or sets a pause: leave paused out of\n%s", page, block)
			}
			objects += report.Objects
		}
	}
	if objects < 4 {
		t.Errorf("found %d objects: are they still in blocks of yaml?", objects)
	}
}

// switches are remote.yaml as pages show it, perhaps within a list.
var switches = regexp.MustCompile("(?ms)^( *)```yaml\n( *switches:\n.*?\n) *```")

func TestEveryRemoteYAMLOfThePagesIsRead(t *testing.T) {
	files := 0
	for _, page := range pages(t) {
		for _, match := range switches.FindAllStringSubmatch(read(t, page), -1) {
			text := strings.ReplaceAll("\n"+match[2], "\n"+match[1], "\n")
			if _, err := remote.Parse(page, []byte(text)); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
			files++
		}
	}
	if files < 2 {
		t.Errorf("found %d files", files)
	}
}

func TestEveryShippedPolicyHasItsLineOnThePageOfPolicies(t *testing.T) {
	files, err := filepath.Glob(root + "/deploy/policies/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies: %v", err)
	}
	page := read(t, "docs/policies.md")
	for _, file := range files {
		if name := filepath.Base(file); !strings.Contains(page, "\n| ["+strings.TrimSuffix(name, ".yaml")+"](../deploy/policies/"+name+")") {
			t.Errorf("docs/policies.md has no line about %s", name)
		}
	}
}

// A rollout of a DaemonSet ends only once every node is back, and some cluster always has one that
// is away: then helm fails, and the controller stays as the command before has left it.
func TestNoUpgradeWaitsForEveryNode(t *testing.T) {
	for _, page := range []string{"docs/install.md", "docs/rollout.md"} {
		for _, block := range submatches(shell, read(t, page)) {
			for line := range strings.Lines(block) {
				upgrades := strings.Contains(line, "helm upgrade") && strings.Contains(line, "--wait")
				waits := strings.Contains(line, "rollout status daemonset/") && !strings.Contains(line, "--timeout=")
				if upgrades || waits {
					t.Errorf("%s: this never ends where a node is away: %s", page, line)
				}
			}
		}
	}
}

// parse returns the program of a command and its verb, "" if there is none.
func parse(command string) (program, verb string) {
	before, _, _ := strings.Cut(command, " #")
	words := strings.Fields(before)
	if len(words) == 0 {
		return "", ""
	}
	program, words = filepath.Base(words[0]), words[1:]
	if program == "kubectl" && len(words) > 1 && words[0] == "nodemend" {
		program, words = "plugin", words[1:]
	}
	for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
		if slices.Contains(valued, words[0]) && len(words) > 1 {
			words = words[1:]
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return program, ""
	}
	return program, words[0]
}

// uses returns the names of a program's commands; none if the folder is not there.
func uses(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, file := range files {
		relative, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, submatches(use, read(t, relative))...)
	}
	if len(all) > 0 {
		all = append(all, "completion", "help") // cobra's own
	}
	return all
}

func submatches(pattern *regexp.Regexp, text string) []string {
	var all []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}
