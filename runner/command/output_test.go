package command

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhatIsKeptOfTheOutput(t *testing.T) {
	lines := strings.Repeat("0123456789abcde\n", 1000)
	for name, test := range map[string]struct {
		policy      *v1alpha1.OutputPolicy
		inTheMiddle bool
		written     []string
		cut         bool
		want        string
		truncated   bool
	}{
		"all of a short one":     {written: []string{"one\n", "two"}, want: "one\ntwo"},
		"exactly what fits":      {written: []string{lines[:maxOutput]}, want: lines[:maxOutput]},
		"the end of a long one":  {written: []string{"first", lines}, want: lines[len(lines)-maxOutput:], truncated: true},
		"invalid bytes replaced": {written: []string{"a\xff\xfeb"}, want: "a\uFFFDb"},
		"nothing, on request": {
			policy: &v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone, Redact: []string{"x"}}, written: []string{"secret\n"},
		},
		"secrets replaced": {
			policy:  &v1alpha1.OutputPolicy{Keep: v1alpha1.OutputTail, Redact: []string{`(?i)password=\S+`, "token .*"}},
			written: []string{"a PASSWORD=one b\nPassword=two\ntoken abc def\nlast password=three"},
			want:    "a *** b\n***\n***\nlast ***",
		},
		"a pattern that matches nothing": {
			policy:  &v1alpha1.OutputPolicy{Redact: slices.Repeat([]string{"(password=.*)?"}, 16)},
			written: []string{"a\n", strings.Repeat("b", maxLine-1) + "\n", "password=c\n"},
			want:    strings.Repeat(grown+"\n", 3),
		},
		"secrets at the end of a line": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`^token=\w+$`}},
			written: []string{"a\ntoken=one\nb token=two\ntoken=three\r\n\n\r\ntoken=four"},
			want:    "a\n***\nb token=two\n***\r\n\n\r\n***",
		},
		"secrets in lines with a carriage return within": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`token=.*$`}},
			written: []string{"progress\rtoken=one\r\nx\r"},
			want:    "progress\r***\r\nx\r",
		},
		"no half of a secret that was cut": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`token=\w{8}`}},
			written: []string{"a\ntoken=s3c"},
			cut:     true,
			want:    "a\n" + cutShort,
		},
		"a last line that was cut, if nothing is to be redacted": {written: []string{"a\nb"}, cut: true, want: "a\nb"},
		"a last line that is complete":                           {policy: &v1alpha1.OutputPolicy{Redact: []string{"x"}}, written: []string{"a\n"}, cut: true, want: "a\n"},
		"secrets that arrive in pieces": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}},
			written: []string{"pass", "word=hun", "ter2", " x\n"},
			want:    "*** x\n",
		},
		"no half of a secret at the cut": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}},
			written: []string{"password=" + strings.Repeat("s", maxOutput), "\n" + strings.Repeat("x", maxOutput-4)},
			want:    "***\n" + strings.Repeat("x", maxOutput-4),
		},
		"secrets with invalid bytes": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}},
			written: []string{"password=a\xffb\n"},
			want:    "***\n",
		},
		"no line that is too long to be redacted": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}},
			written: []string{"a\n", "password=", strings.Repeat("s", maxLine), "tail\nb\n"},
			want:    "a\n" + tooLong + "\nb\n",
		},
		"no beginning that somebody else has read": {
			policy:      &v1alpha1.OutputPolicy{Redact: []string{`password=\S+`}},
			inTheMiddle: true,
			written:     []string{"hun", "ter2\nnext\n"},
			want:        "next\n",
			truncated:   true,
		},
		"what follows such a beginning, if nothing is to be redacted": {inTheMiddle: true, written: []string{"rest\n"}, want: "rest\n", truncated: true},
		"nothing, if a pattern is invalid": {
			policy:  &v1alpha1.OutputPolicy{Redact: []string{"fine", "a(b"}},
			written: []string{"fine\n"},
			want:    "(the output is withheld: output.redact[1] of the policy is not a regular expression in RE2 syntax)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutput(test.policy, test.inTheMiddle)
			for _, text := range test.written {
				if n, err := io.WriteString(o, text); n != len(text) || err != nil {
					t.Fatalf("wrote %d bytes, error %v", n, err)
				}
			}
			if text, truncated := o.text(!test.cut); text != test.want || truncated != test.truncated {
				t.Errorf("got %q, truncated %t; want %q, %t", text, truncated, test.want, test.truncated)
			}
		})
	}
}

func TestKeptOutputIsAlwaysValidAndBounded(t *testing.T) {
	for name, written := range map[string]string{
		"a cut rune":              strings.Repeat("€", maxOutput),
		"a cut four-byte rune":    strings.Repeat("🔧", maxOutput) + "x",
		"invalid bytes that grow": strings.Repeat("a\xff", maxOutput),
	} {
		o := newOutput(nil, false)
		for i := range len(written) {
			_, _ = io.WriteString(o, written[i:i+1])
		}
		text, truncated := o.text(true)
		if !utf8.ValidString(text) || len(text) > maxOutput || len(text) < maxOutput-utf8.UTFMax || !truncated {
			t.Errorf("%s: kept %d bytes, valid %t, truncated %t", name, len(text), utf8.ValidString(text), truncated)
		}
		if name != "invalid bytes that grow" && strings.ContainsRune(text, utf8.RuneError) {
			t.Errorf("%s: the cut left a broken rune", name)
		}
	}
}
