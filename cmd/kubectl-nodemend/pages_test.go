package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
)

var (
	ours  = regexp.MustCompile("kubectl nodemend((?: [^`\n]*)?)")
	ended = regexp.MustCompile(`\s#\s|[|;]|&&`)
	word  = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)
)

func TestEveryCommandLineOfThePagesAndTheHelpIsAccepted(t *testing.T) {
	texts := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == "dist" || len(entry.Name()) > 2 && entry.Name()[0] == '.'):
			return fs.SkipDir
		case filepath.Ext(path) == ".md" || filepath.Base(path) == "NOTES.txt":
			data, err := os.ReadFile(path)
			texts[path] = string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var helps func(*cobra.Command)
	helps = func(cmd *cobra.Command) {
		texts[cmd.CommandPath()+" --help"] = cmd.Example
		for _, sub := range cmd.Commands() {
			helps(sub)
		}
	}
	helps(commandTree())
	found := 0
	for where, text := range texts {
		for _, match := range ours.FindAllStringSubmatch(text, -1) {
			line := ended.Split(match[1]+" ", 2)[0]
			args := word.FindAllString(line, -1)
			for i := range args {
				args[i] = strings.NewReplacer(`"`, "", "'", "").Replace(args[i])
			}
			if len(args) == 0 || args[0] == "COMMAND" {
				continue
			}
			found++
			if err := accepts(args); err != nil {
				t.Errorf("%s: kubectl nodemend%s: %v", where, line, err)
			}
		}
	}
	if found < 60 {
		t.Errorf("found %d command lines: are they still written as kubectl nodemend?", found)
	}
}

func commandTree() *cobra.Command {
	var out bytes.Buffer
	root := newRootCommand(genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}, clock.RealClock{})
	root.InitDefaultCompletionCmd()
	return root
}

// accepts returns what the command line lacks to be run.
func accepts(args []string) error {
	cmd, rest, err := commandTree().Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return nil
	}
	errs := []error{cmd.ValidateArgs(cmd.Flags().Args()), cmd.ValidateRequiredFlags()}
	if cmd.HasSubCommands() {
		errs = append(errs, errors.New("it needs one of its commands"))
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if strings.HasSuffix(flag.Usage, "(required)") && !flag.Changed {
			errs = append(errs, fmt.Errorf("--%s is required", flag.Name))
		}
	})
	return errors.Join(errs...)
}
