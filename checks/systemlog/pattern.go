package systemlog

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLiterals is how many texts are looked for before a pattern is.
const maxLiterals = 8

// pattern is a rule's regular expression, made ready for many lines.
type pattern struct {
	expression *regexp.Regexp
	// literals are texts within one line of which each match contains one; nil: none is known.
	literals []string
	// ownLine says that a match never begins before the line that has come last.
	ownLine bool
	// seen is the number of the latest line that has one of literals; zero: none had.
	seen int
}

// newPattern takes a valid expression, which must match up to the end of the text.
func newPattern(expression string) *pattern {
	expression += `\z`
	p := &pattern{expression: regexp.MustCompile(expression)}
	if tree, err := syntax.Parse(expression, syntax.Perl); err == nil {
		p.literals = literals(tree)
		p.ownLine = endsText(tree) && !looksBack(tree)
	}
	return p
}

// mayBeIn reports whether a line may have a match, or a part of one that has all of its
// literals.
func (p *pattern) mayBeIn(line string) bool {
	return p.literals == nil || slices.ContainsFunc(p.literals, func(literal string) bool { return strings.Contains(line, literal) })
}

// literals returns texts of which all that re matches contains one, or nil.
func literals(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re)
	case syntax.OpCapture, syntax.OpPlus:
		return literals(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literals(re.Sub[0])
		}
	case syntax.OpConcat: // the longest finds the least
		var best []string
		for _, part := range re.Sub {
			if found := literals(part); shortest(found) > shortest(best) {
				best = found
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, part := range re.Sub {
			found := literals(part)
			if found == nil || len(all)+len(found) > maxLiterals {
				return nil
			}
			all = append(all, found...)
		}
		return all
	}
	return nil
}

func literal(re *syntax.Regexp) []string {
	// An expression takes each byte that is no UTF-8 for this rune.
	if re.Flags&syntax.FoldCase != 0 || slices.Contains(re.Rune, utf8.RuneError) {
		return nil
	}
	longest := ""
	for part := range strings.SplitSeq(string(re.Rune), "\n") {
		if len(part) > len(longest) {
			longest = part
		}
	}
	if longest == "" {
		return nil
	}
	return []string{longest}
}

func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

// endsText reports whether all that re matches ends where the text ends.
func endsText(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEndText:
		return true
	case syntax.OpCapture:
		return endsText(re.Sub[0])
	case syntax.OpConcat:
		return endsText(re.Sub[len(re.Sub)-1])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(part *syntax.Regexp) bool { return !endsText(part) })
	default:
		return false
	}
}

// looksBack reports whether re may match a newline, or asks where the text begins.
func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpAnyChar, syntax.OpBeginText:
		return true
	case syntax.OpLiteral:
		return slices.Contains(re.Rune, '\n')
	case syntax.OpCharClass:
		for i := 0; i+1 < len(re.Rune); i += 2 {
			if re.Rune[i] <= '\n' && '\n' <= re.Rune[i+1] {
				return true
			}
		}
		return false
	default:
		return slices.ContainsFunc(re.Sub, looksBack)
	}
}
