package convert

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// flagRule is what is done about a flag.
type flagRule struct {
	// alone: it is true without a value, and takes one only after =.
	alone bool
	// lost says what is not carried over; empty for what is, and for what is unused.
	lost string
	// unused: it is of no use here, whatever its value.
	unused bool
	// verbatim: quotes around it are part of it.
	verbatim bool
}

// program is one that is configured by flags.
type program struct {
	name  string
	rules map[string]flagRule
	// env is what begins the names of environment variables that set flags; "" for none.
	env string
	// arguments: what is no flag is one.
	arguments bool
	convert   func(c *conversion, line commandLine)
}

// programs are those that are known.
func programs() []*program { return []*program{&kured, &draino} }

// commandLine is what a program was started with.
type commandLine struct {
	program *program
	at      value
	// pod is the spec of its pods; not there for a line.
	pod   value
	flags map[string][]value
	args  []value
}

// idle is why the program does nothing; empty if it does.
func (l *commandLine) idle() string {
	switch {
	case l.flag("dry-run").boolean(false): // of those that have it
		return "its dry-run is set"
	case l.pod.there() && l.at.get("spec").peek("replicas") == "0":
		return "it has no replicas"
	}
	return ""
}

// flag returns the last value of a flag, which counts.
func (l *commandLine) flag(name string) value {
	if all := l.flags[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return value{in: l.at.in, path: "--" + name, line: l.at.line}
}

// commandLine converts a file that is one command line, and reports whether it is.
func (c *conversion) commandLine(file File) bool {
	in := &source{c: c, file: file.Name, used: map[*yaml.Node]bool{}}
	words := split(in, string(file.Data))
	if len(words) == 0 {
		return false
	}
	first := path.Base(words[0].node.Value)
	for _, p := range programs() {
		if first == p.name {
			c.objects = append(c.objects, found{words[0], func(c *conversion, v value) { c.run(p, v, value{in: in}, words[1:], nil) }})
			return true
		}
	}
	if !strings.HasPrefix(words[0].node.Value, "-") {
		return false
	}
	var able []*program
	for _, p := range programs() {
		if slices.ContainsFunc(words, func(w value) bool { _, known := p.rules[flagName(w.node.Value)]; return known }) {
			able = append(able, p)
		}
	}
	if len(able) != 1 {
		words[0].path = ""
		words[0].mistake("expected a line that begins with kured or draino: both, or none, have these flags")
		return true
	}
	c.objects = append(c.objects, found{words[0], func(c *conversion, v value) { c.run(able[0], v, value{in: in}, words, nil) }})
	return true
}

// split returns the words of a command line as a shell does, without expanding anything.
func split(in *source, line string) (words []value) {
	var word strings.Builder
	var quote rune
	var begun bool
	number, at := 1, 1
	end := func() {
		if begun {
			words = append(words, wordAt(in, word.String(), at))
		}
		word.Reset()
		begun = false
	}
	begin := func() {
		if !begun {
			begun, at = true, number
		}
	}
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\\' && i+1 < len(runes):
			i++
			if runes[i] != '\n' {
				begin()
				word.WriteRune(runes[i])
			}
		case r == '\'' || r == '"':
			begin()
			quote = r
		case r == '#' && !begun:
			for i+1 < len(runes) && runes[i+1] != '\n' {
				i++
			}
		case strings.ContainsRune(" \t\r\n", r):
			end()
		default:
			begin()
			word.WriteRune(r)
		}
		if runes[i] == '\n' {
			number++
		}
	}
	end()
	if quote != 0 {
		in.c.mistakes = append(in.c.mistakes, Note{File: in.file, Line: at, Message: fmt.Sprintf("expected another %c at the end of what is in quotes", quote)})
	}
	return words
}

// wordAt returns a word as a value.
func wordAt(in *source, word string, line int) value {
	return value{in: in, node: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word}, line: line}
}

func flagName(word string) string {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	return name
}

// workload converts the program of a DaemonSet or Deployment.
func (c *conversion) workload(v value) {
	p := programOf(v)
	pod := v.get("spec").get("template").get("spec")
	for _, container := range pod.get("containers").items() {
		if containerProgram(container) != p {
			continue
		}
		if from := container.get("envFrom"); p.env != "" && slices.ContainsFunc(from.items(), func(e value) bool {
			prefix := e.peek("prefix")
			return strings.HasPrefix(p.env, prefix) || strings.HasPrefix(prefix, p.env)
		}) {
			from.mistake("expected %s… in env, with its value: what a ConfigMap or Secret sets is not in this manifest. Write it as env, or remove this if it sets none of them", p.env)
		}
		known := variables(container)
		words := slices.Concat(container.get("command").items(), container.get("args").items())
		for i := range words {
			words[i] = known.expand(words[i])
		}
		switch wordBase(words) {
		case p.name:
			words = words[1:]
		case "sh", "bash":
			container.get("command").mistake("expected %s with its flags, found a shell: give its line of flags in a file", p.name)
			return
		}
		c.run(p, v, pod, words, environment(p, container, known))
		return
	}
}

// variablesOf are variables of a container, by their names. Values that are not in the manifest
// are unknown.
type variablesOf map[string]value

// unknown is the tag of a text whose value is not in the manifest.
const unknown = "!unknown"

// variables returns those of a container. Each may name those before it.
func variables(container value) variablesOf {
	known := variablesOf{}
	for _, e := range container.get("env").items() {
		of := known.expand(wordAt(e.in, e.peek("value"), e.line))
		if e.has("valueFrom") {
			of.node.Tag = unknown
		}
		known[e.peek("name")] = of
	}
	return known
}

var reference = regexp.MustCompile(`\$?\$\([-._a-zA-Z0-9]+\)`)

// expand returns a word of a command line with values for its $(NAME), as the kubelet does.
func (known variablesOf) expand(word value) value {
	if word.node.Kind != yaml.ScalarNode || !reference.MatchString(word.node.Value) {
		return word
	}
	node := *word.node
	node.Value = reference.ReplaceAllStringFunc(node.Value, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		of, is := known[found[2:len(found)-1]]
		switch {
		case !is:
			return found
		case of.node.Tag == unknown:
			node.Tag = unknown
			return found
		}
		return of.node.Value
	})
	word.node = &node
	return word
}

// programOf returns the program of a workload; nil for any other.
func programOf(v value) *program {
	for _, container := range v.get("spec").get("template").get("spec").get("containers").items() {
		if p := containerProgram(container); p != nil {
			return p
		}
	}
	return nil
}

// containerProgram returns what a container runs, by its command or else its image.
func containerProgram(container value) *program {
	image, _, _ := strings.Cut(path.Base(container.peek("image")), "@")
	image, _, _ = strings.Cut(image, ":")
	words := slices.Concat(container.get("command").items(), container.get("args").items())
	for _, p := range programs() {
		if wordBase(words) == p.name || image == p.name {
			return p
		}
	}
	return nil
}

// wordBase returns the name of the program that a command line begins with.
func wordBase(words []value) string {
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0].node.Value)
}

// environment returns the flags that the environment of a container sets.
func environment(p *program, container value, known variablesOf) (words []value) {
	for _, e := range container.get("env").items() {
		name, ours := strings.CutPrefix(e.peek("name"), p.env)
		if p.env == "" || !ours {
			continue
		}
		of := known[e.peek("name")]
		word := wordAt(e.in, "--"+strings.ReplaceAll(strings.ToLower(name), "_", "-")+"="+of.node.Value, e.line)
		word.node.Tag = of.node.Tag
		words = append(words, word)
	}
	return words
}

// run reads the flags, then those of the environment, which win, notes what is lost, and
// converts the rest.
func (c *conversion) run(p *program, at, pod value, words, environment []value) {
	line := commandLine{program: p, at: at, pod: pod, flags: map[string][]value{}}
	for name, flags := range line.read(words) {
		line.flags[name] = flags
	}
	set := line.read(environment)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		of, flag := set[name][len(set[name])-1], line.flag(name)
		if flag.there() && flag.node.Value != of.node.Value && !p.rules[name].unused {
			c.ask(of, "the flag says %s. What is here has the environment, as today's %s; former versions took the flag", flag.shown(), p.name)
		}
		line.flags[name] = append(line.flags[name], set[name]...)
	}
	p.convert(c, line)
}

// read returns the flags of words, and keeps the arguments.
func (l *commandLine) read(words []value) map[string][]value {
	p, flags := l.program, map[string][]value{}
	for i := 0; i < len(words); i++ {
		word := words[i]
		c := word.in.c
		if word.node.Kind != yaml.ScalarNode {
			word.mistake("expected a flag of %s", p.name)
			continue
		}
		if !strings.HasPrefix(word.node.Value, "-") {
			switch {
			case !p.arguments:
				word.mistake("expected a flag of %s, found %s", p.name, word.shown())
			case word.node.Tag == unknown:
				word.notHere()
			}
			l.args = append(l.args, word)
			continue
		}
		name, text, given := strings.Cut(strings.TrimLeft(word.node.Value, "-"), "=")
		tag := word.node.Tag
		rule, known := p.rules[name]
		if !known && strings.HasPrefix(name, "no-") && p.rules[strings.TrimPrefix(name, "no-")].alone {
			name, text, given, known = strings.TrimPrefix(name, "no-"), "false", true, true
			rule = p.rules[name]
		}
		switch {
		case given:
		case rule.alone:
			text = "true"
		case i+1 < len(words) && (known || !p.arguments && !strings.HasPrefix(words[i+1].node.Value, "-")):
			i++
			text, tag = words[i].node.Value, words[i].node.Tag
		case known:
			word.path = "--" + name
			word.mistake("expected a value")
			continue
		}
		if !rule.verbatim {
			text = unquoted(text)
		}
		of := wordAt(word.in, text, word.line)
		of.path = "--" + name
		switch {
		case !known:
			c.lost(of, "%s has no such flag, or none that is known here", p.name)
		case rule.lost != "" && (tag == unknown || !slices.Contains([]string{"", "0", "0s", "false"}, text)):
			c.lost(of, "%s", rule.lost)
		case tag == unknown && !rule.unused:
			of.notHere()
		}
		flags[name] = append(flags[name], of)
	}
	return flags
}

// notHere records that the value is not in the manifest.
func (v value) notHere() {
	v.mistake("expected the value itself: what it is taken from is not in this manifest")
}

// unquoted returns a text without the quotes around all of it, as people leave them in manifests.
func unquoted(text string) string {
	for _, quote := range []string{`"`, "'"} {
		if inside, begins := strings.CutPrefix(text, quote); begins {
			if inside, ends := strings.CutSuffix(inside, quote); ends && !strings.Contains(inside, quote) {
				return inside
			}
		}
	}
	return text
}

// from says what an object is made from.
func (l *commandLine) from() string {
	return fmt.Sprintf("From the flags of %s, %s:%d.", l.program.name, l.at.in.file, cmp.Or(l.at.line, 1))
}
