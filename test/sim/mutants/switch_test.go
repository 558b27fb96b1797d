package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example has functions of all forms.
const example = `package main

import "fmt"

type list[T any] []T

func (l list[T]) sum(_ string, more ...int) (n int) {
	n = len(l)
	for _, m := range more {
		n += m
	}
	return n
}

func pick[T any](first, _ T) T { return first }

func twice(n int) int {
	if n == 0 {
		return 0
	}
	return 2 + twice(n-1)
}

func tell(string) { fmt.Println(list[int]{7}.sum("", 1, 2), pick("a", "b"), twice(3)) }

func main() { tell("") }
`

// each changes one line of the example.
func each(line, to string) change {
	return change{file: "main.go", hunks: []hunk{{old: []string{line}, mutate: []string{to}}}}
}

func TestOneProgramIsEveryMutantThatIsSwitchedOn(t *testing.T) {
	s := switched{read: func(string) (string, error) { return example, nil }, files: map[string]*switchedFile{}}
	for name, changes := range map[string][]change{
		"sum-less":   {each("\t\tn += m", "\t\tn -= m")},
		"sum-none":   {each("\treturn n", "\treturn 0")},
		"pick-other": {each("func pick[T any](first, _ T) T { return first }", "func pick[T any](first, _ T) T { var none T; return none }")},
		"thrice":     {each("\treturn 2 + twice(n-1)", "\treturn 3 + twice(n-1)")},
		"both":       {each("\treturn n", "\treturn 0"), each("\treturn 2 + twice(n-1)", "\treturn 3 + twice(n-1)")},
	} {
		if together, err := s.add(mutant{name: name, changes: changes}); !together || err != nil {
			t.Fatalf("%s is added: %v, %v", name, together, err)
		}
	}
	replace, err := s.overlay()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace["go.mod"] = "module example\n\ngo 1.24\n"
	for file, content := range replace {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "program", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, output, replace["main.go"])
	}
	for name, want := range map[string]string{
		"": "4 a 6", "another": "4 a 6",
		"sum-less": "-2 a 6", "sum-none": "0 a 6", "pick-other": "4  6", "thrice": "4 a 9", "both": "0 a 9",
	} {
		program := exec.CommandContext(t.Context(), filepath.Join(dir, "program"))
		program.Env = append(os.Environ(), variable+"="+name)
		output, err := program.Output()
		if got := strings.TrimSuffix(string(output), "\n"); err != nil || got != want {
			t.Errorf("as mutant %q the program says %q, want %q: %v", name, got, want, err)
		}
	}
}

func TestWhatIsMoreThanBodiesOfFunctionsIsBuiltAlone(t *testing.T) {
	for name, c := range map[string]change{
		"a type":                   each("type list[T any] []T", "type list[T comparable] []T"),
		"an import":                each(`import "fmt"`, `import fmt "log"`),
		"a parameter":              each("func tell(string) { fmt.Println(list[int]{7}.sum(\"\", 1, 2), pick(\"a\", \"b\"), twice(3)) }", "func tell(any) {}"),
		"a function that is there": each(`func main() { tell("") }`, "func main() {}\n\nfunc more() {}"),
	} {
		s := switched{read: func(string) (string, error) { return example, nil }, files: map[string]*switchedFile{}}
		together, err := s.add(mutant{name: name, changes: []change{c}})
		replace, overlayErr := s.overlay()
		if together || len(replace) > 0 || err != nil || overlayErr != nil {
			t.Errorf("%s: together %v, %d files, %v", name, together, len(replace), errors.Join(err, overlayErr))
		}
	}
}
