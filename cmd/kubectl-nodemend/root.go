package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/fold"
	"github.com/nodemend/nodemend/internal/serverclock"
)

const rootHelp = `See what Nodemend does about the nodes of a cluster, and why not; and tell it
yes, no, and not now.

Everything here is also in the API: kubectl get remediations,nodemaintenances,
remediationbudgets,remedypolicies,nodeactions.

All flags of kubectl options work here, too.`

const rootExample = `  # The fleet at a glance.
  kubectl nodemend status

  # Why was node worker-17 not repaired?
  kubectl nodemend why worker-17
  kubectl nodemend history worker-17

  # Stop everything, at once.
  kubectl nodemend pause --reason "network maintenance until 14:00"`

// tool is what all commands share.
type tool struct {
	streams genericiooptions.IOStreams
	clock   clock.PassiveClock
	flags   *genericclioptions.ConfigFlags
	global  *pflag.FlagSet // flags of all commands
}

// newRootCommand returns the command that has all others.
// With a clock that learns, times are compared by that of the API server, as the
// controller does.
func newRootCommand(streams genericiooptions.IOStreams, clk clock.PassiveClock) *cobra.Command {
	t := &tool{streams: streams, clock: clk, flags: genericclioptions.NewConfigFlags(true)}
	root := &cobra.Command{
		Use:           "kubectl-nodemend",
		Short:         "See and steer how the nodes of a cluster are repaired",
		Long:          rootHelp,
		Example:       rootExample,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl nodemend"},
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	t.flags.Namespace = nil // nothing here has one
	t.flags.AddFlags(root.PersistentFlags())
	t.global = root.PersistentFlags()
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) { // they are kubectl's, and known from there
		flag.Hidden = !slices.Contains([]string{"kubeconfig", "context", "as", "request-timeout"}, flag.Name)
	})
	root.AddGroup(&cobra.Group{ID: "see", Title: "See:"}, &cobra.Group{ID: "steer", Title: "Steer:"}, &cobra.Group{ID: "prepare", Title: "Prepare:"})
	for _, cmd := range []*cobra.Command{
		t.statusCommand(), t.whyCommand(), t.historyCommand(), t.describeCommand(), t.watchCommand(), t.hardwareCommand(), t.fenceCommand(), t.versionCommand(),
	} {
		cmd.GroupID = "see"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{
		t.pauseCommand(), t.resumeCommand(), t.maintenanceCommand(), t.runCommand(), t.approveCommand(),
		t.retryCommand(), t.cancelCommand(), t.excludeCommand(), t.includeCommand(), t.uninstallCommand(),
	} {
		cmd.GroupID = "steer"
		root.AddCommand(cmd)
	}
	convert := t.convertCommand()
	convert.GroupID = "prepare"
	root.AddCommand(convert)
	root.SetFlagErrorFunc(misused)
	onlyCommands(root)
	tellUsage(root)
	narrow(root)
	return root
}

// onlyCommands makes a command that is only there for those below it, and those of them that are, refuse
// what is none.
func onlyCommands(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := ""
		if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
			hint = "; did you mean " + strings.Join(similar, " or ") + "?"
		}
		return fmt.Errorf("unknown command %q%s", args[0], hint)
	}
	for _, sub := range cmd.Commands() {
		onlyCommands(sub)
	}
}

// counted is what cobra says of a wrong number of arguments.
var counted = regexp.MustCompile(`arg\(s\)|^unknown command .* for `)

// wrongNumber says which arguments a command takes.
func wrongNumber(cmd *cobra.Command, args []string) error {
	takes, got := strings.TrimSpace(strings.TrimPrefix(cmd.Use, cmd.Name())), "nothing"
	if len(args) > 0 {
		got = fmt.Sprintf("%q", strings.Join(args, " "))
	}
	return fmt.Errorf("%s takes %s, and got %s", cmd.CommandPath(), cmp.Or(takes, "no arguments"), got)
}

// tellUsage makes a command and those below it say how they are used if arguments are wrong.
func tellUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if counted.MatchString(err.Error()) {
					err = wrongNumber(cmd, args)
				}
				return misused(cmd, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		tellUsage(sub)
	}
}

// narrow has the help of a command and of those below it fit a terminal.
func narrow(root *cobra.Command) {
	usage := regexp.MustCompile(`FlagUsages\b`).ReplaceAllString(root.UsageTemplate(), fmt.Sprintf("FlagUsagesWrapped %d", fold.Usual))
	root.SetUsageTemplate(strings.Replace(usage, `Use "{{.CommandPath}} [command] --help" for more information about a command.`, `{{.CommandPath}} COMMAND --help tells more.`, 1))
	var fill func(*cobra.Command)
	fill = func(cmd *cobra.Command) {
		cmd.Long = fold.Paragraphs(cmd.Long, fold.Usual)
		for _, sub := range cmd.Commands() {
			fill(sub)
		}
	}
	fill(root)
}

// insides is what a parser of Go says beside what is wrong.
var insides = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": `)

// misused adds to what is wrong with a command line how it is used.
func misused(cmd *cobra.Command, err error) error {
	return statusError{2, fmt.Errorf("%s\nusage: %s\nexamples: %s --help", insides.ReplaceAllString(err.Error(), ""), cmd.UseLine(), cmd.CommandPath())}
}

// qps is the client's limit of requests per second: one look takes a few dozen.
const qps = 200

// connect returns a client of the cluster that the flags name.
func (t *tool) connect() (client.WithWatch, error) {
	cfg, err := t.flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding out how to reach the API server: %w; give a file with --kubeconfig or KUBECONFIG", err)
	}
	cfg = rest.AddUserAgent(cfg, "kubectl-nodemend/"+version)
	cfg.QPS, cfg.Burst = qps, qps
	cfg.WarningHandler = rest.NoWarnings{}
	if learning, ok := t.clock.(*serverclock.Clock); ok {
		cfg.Wrap(learning.Wrap)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme})
}

// newScheme returns the kinds that are read and written.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// action is what a command does with a cluster.
type action func(ctx context.Context, c client.WithWatch, args []string) error

// run returns a command's RunE that connects, acts, and explains what went wrong.
func (t *tool) run(do action) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := t.connect()
		if err != nil {
			return err
		}
		return explained(do(cmd.Context(), c, args))
	}
}

// explained adds to an error what a person can do about it.
func explained(err error) error {
	var unreachable *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	case meta.IsNoMatchError(err):
		return fmt.Errorf("the cluster does not know the kinds of Nodemend: is it installed? (%w)", err)
	case apierrors.IsForbidden(err):
		return lacksRight(err)
	case errors.As(err, &unreachable):
		return fmt.Errorf("cannot reach the API server: %w; check --kubeconfig and --context", err)
	default:
		return err
	}
}

// printf prints what we say, with texts of others as part of a line. On a terminal it is folded.
func (t *tool) printf(format string, args ...any) {
	for i := range args {
		if text, ok := args[i].(string); ok {
			args[i] = oneLine(text)
		}
	}
	_, _ = fmt.Fprint(t.streams.Out, fold.Lines(fmt.Sprintf(format, args...), fold.Width(t.streams.Out))) // nobody is left to tell
}
