package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks/npd"
)

// npdCommandLine is that of node-problem-detector: its options, and three of klog's.
func npdCommandLine(t *testing.T) (options, logging *pflag.FlagSet) {
	t.Helper()
	options = pflag.NewFlagSet("options", pflag.ContinueOnError)
	if _, err := npd.AddFlags(options); err != nil {
		t.Fatal(err)
	}
	options.String("exporter.stackdriver", "", "")
	all, some := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(all)
	for _, name := range []string{"v", "vmodule", "logtostderr"} {
		f := all.Lookup(name)
		some.Var(f.Value, f.Name, f.Usage)
	}
	logging = pflag.NewFlagSet("logging", pflag.ContinueOnError)
	logging.AddGoFlagSet(some)
	return options, logging
}

func TestTheDetectorHasEveryFlagOfNodeProblemDetector(t *testing.T) {
	root := newRootCommand(newTestLog(t, io.Discard))
	detector, _, err := root.Find([]string{"detector"})
	if err != nil {
		t.Fatal(err)
	}
	compare := func(theirs *pflag.Flag, sameType bool) {
		ours := detector.Flag(theirs.Name)
		if ours == nil {
			t.Errorf("--%s is missing", theirs.Name)
			return
		}
		type properties struct{ Type, Default, WithoutValue, Shorthand, Deprecated string }
		want := properties{theirs.Value.Type(), theirs.DefValue, theirs.NoOptDefVal, theirs.Shorthand, theirs.Deprecated}
		got := properties{ours.Value.Type(), ours.DefValue, ours.NoOptDefVal, ours.Shorthand, ours.Deprecated}
		if !sameType {
			got.Type = want.Type
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("--%s (-theirs +ours):\n%s", theirs.Name, diff)
		}
	}
	options, logging := npdCommandLine(t)
	options.VisitAll(func(f *pflag.Flag) { compare(f, true) })
	logging.VisitAll(func(f *pflag.Flag) { compare(f, false) }) // klog's types are its own
	for _, name := range []string{"config.custom-plugin-monitor", "config.system-log-monitor", "config.system-stats-monitor"} {
		if options.Lookup(name) == nil {
			t.Errorf("--%s is not among what is compared", name)
		}
	}
}

func TestACommandLineOfNodeProblemDetectorIsUnderstood(t *testing.T) {
	root := newRootCommand(newTestLog(t, io.Discard))
	detector, _, err := root.Find([]string{"detector"})
	if err != nil {
		t.Fatal(err)
	}
	if err := detector.ParseFlags([]string{"--v=2", "-v=4", "--logtostderr", "--logtostderr=false", "--vmodule=manager=3,plugin*=5"}); err != nil {
		t.Error(err)
	}

	o, err := parse(t, "--enable-k8s-exporter=false", "--port=0", "--prometheus-port=0", "--hostname-override=worker-17",
		"--event-namespace=kube-system", "--k8s-exporter-write-events=false", "--k8s-exporter-update-node-conditions=false",
		"--apiserver-wait-timeout=1m", "--apiserver-wait-interval=1s",
		"--config.system-log-monitor=a.json,b.json", "--config.custom-plugin-monitor=c.json", "--config.custom-plugin-monitor=d.json",
		"--config.system-stats-monitor=e.json").options(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type files = [3][]string
	if diff := cmp.Diff(files{{"a.json", "b.json"}, {"c.json", "d.json"}, {"e.json"}}, files{o.SystemLogs, o.CustomPlugins, o.SystemStats}); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if o.NodeName != "worker-17" || o.EventNamespace != "kube-system" || o.Client != nil {
		t.Errorf("node %q, events in %q, a client %t; want worker-17, kube-system and none", o.NodeName, o.EventNamespace, o.Client != nil)
	}
	if !o.WithoutAPIServer || !o.WithoutEvents || !o.WithoutStatus {
		t.Errorf("without an API server %t, events %t, status %t; want all to be left out", o.WithoutAPIServer, o.WithoutEvents, o.WithoutStatus)
	}
	if o.HealthAddress != "" || o.MetricsAddress != "" {
		t.Error("it listens although both ports are zero")
	}
}

func TestOldNamesOfFlagsStillWork(t *testing.T) {
	o, err := parse(t, "--enable-k8s-exporter=false", "--port=0", "--prometheus-port=0",
		"--system-log-monitors=a.json,b.json", "--custom-plugin-monitors=c.json").options(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(o.SystemLogs, []string{"a.json", "b.json"}) || !slices.Equal(o.CustomPlugins, []string{"c.json"}) {
		t.Errorf("system logs %v, custom plugins %v; want [a.json b.json] and [c.json]", o.SystemLogs, o.CustomPlugins)
	}
}

func TestWrongUseOfTheFlagsOfNodeProblemDetector(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // this is no pod
	const override = "--apiserver-override="
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"the old and the new name for plugins": {
			[]string{"--custom-plugin-monitors=a.json", "--config.custom-plugin-monitor=b.json"},
			[]string{"--custom-plugin-monitors is the old name of --config.custom-plugin-monitor: give one of them"},
		},
		"the old and the new name for logs": {
			[]string{"--system-log-monitors=a.json", "--config.system-log-monitor=b.json"},
			[]string{"--system-log-monitors is the old name of --config.system-log-monitor: give one of them"},
		},
		"Stackdriver": {
			[]string{"--exporter.stackdriver=a.json"},
			[]string{"--exporter.stackdriver is not supported", "/metrics"},
		},
		"two ways to the API server": {
			[]string{override + "https://h?inClusterConfig=false", "--kubeconfig=a"},
			[]string{"--apiserver-override and --kubeconfig both say how to reach the API server"},
		},
		"all mistakes at once": {
			[]string{"--exporter.stackdriver=a.json", override + "https://h", "--kubeconfig=a"},
			[]string{"--exporter.stackdriver", "--kubeconfig"},
		},
		"no URI": {
			[]string{override + "http://[::1"},
			[]string{override + "http://[::1: ", "missing ']'"},
		},
		"options of the URI that are neither true nor false": {
			[]string{override + "https://h?inClusterConfig=perhaps&insecure=2"},
			[]string{`option inClusterConfig is "perhaps", accepted are true and false`, `option insecure is "2"`},
		},
		"a URI that names nobody": {
			[]string{override + "?inClusterConfig=false"},
			[]string{"neither a server (https://HOST:PORT) nor auth=FILE is given"},
		},
		"a kubeconfig file that is missing": {
			[]string{override + "?inClusterConfig=false&auth=/no/such/file"},
			[]string{"/no/such/file: no such file or directory"},
		},
		"a service account outside of a pod": {
			[]string{override + "https://h"},
			[]string{"inClusterConfig=false&auth=FILE"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, append(tc.args, "--port=0", "--prometheus-port=0")...).options(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if status := exitStatus(err); status != 2 {
				t.Errorf("exit status %d, want 2", status)
			}
		})
	}
}

func TestAnOverrideSaysHowToReachTheAPIServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"c": {Server: "https://in-the-file:6443", CertificateAuthorityData: []byte("authority")}},
		AuthInfos:      map[string]*api.AuthInfo{"u": {Token: "token"}},
		Contexts:       map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file); err != nil {
		t.Fatal(err)
	}
	type reach struct {
		Host, CA, Token string
		Insecure        bool
	}
	inFile := reach{Host: "https://in-the-file:6443", CA: "authority", Token: "token"}
	for uri, want := range map[string]reach{
		"https://10.0.0.1:6443?inClusterConfig=false":               {Host: "https://10.0.0.1:6443"},
		"http://10.0.0.1:8080/path?inClusterConfig=false":           {Host: "http://10.0.0.1:8080"},
		"https://10.0.0.1:6443?inClusterConfig=false&insecure=true": {Host: "https://10.0.0.1:6443", Insecure: true},
		// As node-problem-detector has it, the file decides.
		"?inClusterConfig=false&auth=" + file:                                    inFile,
		"https://10.0.0.1:6443?inClusterConfig=false&auth=" + file:               inFile,
		"https://10.0.0.1:6443?insecure=true&inClusterConfig=false&auth=" + file: inFile,
	} {
		cfg, err := overriddenConfig(uri)
		if err != nil {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		got := reach{cfg.Host, string(cfg.CAData), cfg.BearerToken, cfg.Insecure}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", uri, diff)
		}
		if want := "nodemend-detector"; !strings.HasSuffix(cfg.UserAgent, want) {
			t.Errorf("%s: User-Agent %q, want one that ends with %s", uri, cfg.UserAgent, want)
		}
	}
}

func TestAnOverrideUsesTheTokenOfTheServiceAccountIfThereIsOne(t *testing.T) {
	dir := t.TempDir()
	token, empty, missing := filepath.Join(dir, "token"), filepath.Join(dir, "empty"), filepath.Join(dir, "missing")
	for path, text := range map[string]string{token: "secret\n", empty: "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const with, without = "https://h?inClusterConfig=false&useServiceAccount=true", "https://h?inClusterConfig=false"
	for _, tc := range []struct{ uri, file, want string }{
		{with, token, token}, {with, empty, ""}, {with, missing, ""}, {with, dir, ""}, {without, token, ""},
	} {
		cfg, err := parseOverride(tc.uri, tc.file)
		if err != nil {
			t.Errorf("%s: %v", tc.uri, err)
		} else if cfg.BearerTokenFile != tc.want {
			t.Errorf("%s: token is read from %q, want %q", tc.uri, cfg.BearerTokenFile, tc.want)
		}
	}
}

// parse parses flags as the detector does.
func parse(t *testing.T, args ...string) *detectorFlags {
	t.Helper()
	f := &detectorFlags{set: pflag.NewFlagSet("detector", pflag.ContinueOnError)}
	f.set.SetOutput(t.Output()) // where flags are called deprecated
	nodeNameFlag(f.set, &f.node)
	kubeconfigFlag(f.set, &f.kubeconfig)
	addNPDFlags(f)
	if err := f.set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheDocumentationHasEveryFlagAndFieldWithoutEffect(t *testing.T) {
	data, err := os.ReadFile("../../docs/checks.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, field := range []string{"skip_initial_status", "enable_message_change_based_condition_update"} {
		if !strings.Contains(text, "`"+field+"`") {
			t.Errorf("docs/checks.md does not say that %s has no effect", field)
		}
	}
	newDetectorCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden && flag.Deprecated == "" && flag.Name != "hostname-override" && !strings.Contains(text, "`--"+flag.Name+"`") {
			t.Errorf("docs/checks.md does not say what becomes of --%s", flag.Name)
		}
	})
}
