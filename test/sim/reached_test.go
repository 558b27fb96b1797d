package sim

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEveryReasonOfAGateAndOfAnActionIsToBeReached(t *testing.T) {
	for pattern, known := range map[string][]string{
		"../../controller/gates/*.go":               blocks(),
		"../../config/v1alpha1/nodeaction_types.go": actionOutcomes(),
	} {
		for name, reason := range reasons(t, pattern) {
			if !slices.Contains(known, reason) {
				t.Errorf("%s of %s is not expected to be reached: add it to reached.go", name, pattern)
			}
		}
	}
}

// reasons are the constants of these files whose names begin with Reason.
func reasons(t *testing.T, pattern string) map[string]string {
	files, err := filepath.Glob(pattern)
	if err != nil || files == nil {
		t.Fatalf("no file %s: %v", pattern, err)
	}
	found := map[string]string{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(v.Names[0].Name, "Reason") || len(v.Values) == 0 {
				return true
			}
			if literal, ok := v.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				found[v.Names[0].Name], _ = strconv.Unquote(literal.Value)
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("no reasons in %s", pattern)
	}
	return found
}

func TestWhatIsNeverReachedIsTold(t *testing.T) {
	var out strings.Builder
	tellReached(&out, map[string]int{"blocked by Paused": 3, "something new": 2})
	for _, want := range []string{"3  Paused", "never  Aborted, ", "2  something new"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, &out)
		}
	}
}
