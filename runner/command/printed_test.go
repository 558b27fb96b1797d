package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhatSeveralRunnersHaveReadIsPutTogether(t *testing.T) {
	redacting := &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}}
	for name, test := range map[string]struct {
		policy *v1alpha1.OutputPolicy
		text   string
		step   int
	}{
		"lines":                    {nil, "one\ntwo €\nthree", 1},
		"more than is kept":        {nil, strings.Repeat("0123456789abcde\n", 600), 97},
		"a secret":                 {redacting, "a\nthe password=hunter2 is\nlast password=three", 1},
		"a line that is too long":  {redacting, "a\npassword=" + strings.Repeat("s", maxLine) + "\nb\n", 997},
		"nothing, on request":      {&v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone}, "secret\n", 1},
		"all of it is withheld":    {&v1alpha1.OutputPolicy{Redact: []string{"a(b"}}, "secret\n", 1},
		"nothing has been printed": {nil, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{Dir: t.TempDir()})
			all := newOutput(test.policy, false)
			_, _ = all.Write([]byte(test.text))
			want, wantTruncated := all.text(true)
			for cut := 0; cut <= len(test.text); cut += test.step {
				first := newOutput(test.policy, false)
				_, _ = first.Write([]byte(test.text[:cut]))
				r.leave(t.Context(), "unit", hasRead(t, first))
				second := r.takeUp("unit", test.policy)
				_, _ = second.Write([]byte(test.text[cut:]))
				if got, truncated := second.text(true); got != want || truncated != wantTruncated {
					t.Fatalf("cut at %d: got %q, truncated %t; want %q, %t", cut, got, truncated, want, wantTruncated)
				}
			}
		})
	}
}

// hasRead returns a pipe that nobody reads any more.
func hasRead(t *testing.T, out *output) *pipe {
	t.Helper()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	idle := make(chan struct{})
	close(idle)
	return &pipe{file: file, out: out, idle: idle}
}

// A pipe of ours is never at its end, so that what a test writes is there at once, read or
// not.
func TestTheNextRunnerBeginsWithWhatTheLastOneHasRead(t *testing.T) {
	dir := t.TempDir()
	r := New(Options{Dir: dir})
	path := filepath.Join(dir, "pipe")
	if err := makePipe(path); err != nil {
		t.Fatal(err)
	}
	printed, write, err := openPipe(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = write.Close() }()
	var want string
	for _, text := range []string{"first\n", "second\n", "third\n"} {
		if _, err := write.WriteString(text); err != nil {
			t.Fatal(err)
		}
		want += text
		r.leave(t.Context(), "unit", printed)
		info, err := os.Stat(r.printedPath("unit"))
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("got %v, %v, want a file for root alone", info, err)
		}
		if printed, err = readPipe(path, r.takeUp("unit", nil)); err != nil {
			t.Fatal(err)
		}
	}
	if got, truncated := printed.finish(true); got != want || truncated {
		t.Errorf("got %q, truncated %t, want %q", got, truncated, want)
	}
	printed.close()
	// The one that has taken it up may have been killed, and have read anything.
	if _, truncated := r.takeUp("unit", nil).text(true); !truncated {
		t.Error("what is left of a killed runner's output is taken for all of it")
	}
}

func TestOutputThatCanNotBeKeptIsSaidToBeCut(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"no room for it":     func(path string) error { return os.MkdirAll(filepath.Join(path, "in the way"), 0o700) },
		"nobody can read it": func(path string) error { return os.WriteFile(path, []byte(`{"tail":`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			r := New(Options{Dir: t.TempDir()})
			if err := spoil(r.printedPath("unit")); err != nil {
				t.Fatal(err)
			}
			if name == "no room for it" {
				r.leave(t.Context(), "unit", hasRead(t, newOutput(nil, false)))
			}
			o := r.takeUp("unit", nil)
			_, _ = o.Write([]byte("rest\n"))
			if text, truncated := o.text(true); text != "rest\n" || !truncated {
				t.Errorf("got %q, truncated %t", text, truncated)
			}
		})
	}
}

func TestWhatIsLeftOfTheOutputIsBounded(t *testing.T) {
	o := newOutput(&v1alpha1.OutputPolicy{Redact: []string{"x"}}, false)
	line := strings.Repeat("a", 1000)
	for range 100 {
		_, _ = o.Write([]byte(line + "\n"))
	}
	for range 16 {
		_, _ = o.Write([]byte(line))
	}
	data, err := json.Marshal(o.kept())
	if err != nil || len(data) > 2*(maxOutput+maxLine) || len(o.kept().Line) != 16*len(line) {
		t.Errorf("%d bytes, %v, the last line has %d", len(data), err, len(o.kept().Line))
	}
}
