package hostunits

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
)

const (
	// DefaultHostRoot is where the pod mounts the host's root directory.
	DefaultHostRoot = "/host"
	// DefaultBinDir is the directory of the host for the program.
	DefaultBinDir = "/opt/nodemend/bin"
	// DefaultCredentials is where the kubelet puts the token and the CA of a pod's
	// service account.
	DefaultCredentials = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path
	// DefaultExecutable is this very program.
	DefaultExecutable = "/proc/self/exe"
)

// Options say what is installed where. Paths of the host are as the host sees them.
type Options struct {
	// Role is what the unit runs. Required.
	Role Role
	// HostRoot is the directory here where the host's root directory is mounted.
	// Required.
	HostRoot string
	// BinDir is the directory of the host that the program is copied to. It is made
	// if need be; programs must be allowed to run from there. Required.
	BinDir string
	// Systemd is the host's. Required.
	Systemd Systemd

	// NodeName is the name of the node's Node object. Required by Run.
	NodeName string
	// Server is the URL of the API server as the host reaches it. Required by Run.
	Server string
	// Args are given to the role after those that name the node and the kubeconfig.
	Args []string
	// Credentials is the directory here with the files token and ca.crt. Required by
	// Run.
	Credentials string
	// Executable is the file here that is copied to the host. It must be static.
	// Required by Run.
	Executable string
	// HealthAddress is the TCP address on which Run serves /healthz and /readyz.
	// Empty: not served.
	HealthAddress string
}

// safePath is a path that systemd takes as it stands.
var safePath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

func (o Options) validate() error {
	if _, err := ParseRole(string(o.Role)); err != nil {
		return err
	}
	if !path.IsAbs(o.HostRoot) {
		return fmt.Errorf("the host's root directory %q is not an absolute path; mount it into the pod and give the place, for example %s", o.HostRoot, DefaultHostRoot)
	}
	if !safePath.MatchString(o.BinDir) {
		return fmt.Errorf("the directory for the program %q is not an absolute path of letters, digits and . _ -; the default is %s", o.BinDir, DefaultBinDir)
	}
	return nil
}

func (o Options) validateInstall() error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.NodeName == "" {
		return errors.New("the node's name is missing: it is that of the Node object, as in `kubectl get nodes`")
	}
	server, err := url.Parse(o.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" {
		return fmt.Errorf("the API server's URL %q is not of the form https://HOST:PORT; give the one that this host reaches it by, such as the server in the kubelet's kubeconfig", o.Server)
	}
	return nil
}

// layout is where things are on the host.
type layout struct {
	binary, unit, kubeconfig, token, ca string
	// link is by what the unit starts with the host: WantedBy in the unit file.
	link string
	// record says what the unit was last started with.
	record string
	// claim says which installer looks after the unit.
	claim string
}

func (o Options) layout() layout {
	const config, state = "/etc/nodemend/", "/var/lib/nodemend/"
	role := string(o.Role)
	return layout{
		binary:     path.Join(o.BinDir, o.Role.program()),
		unit:       "/etc/systemd/system/" + o.Role.Unit(),
		link:       "/etc/systemd/system/multi-user.target.wants/" + o.Role.Unit(),
		kubeconfig: config + role + ".kubeconfig",
		token:      state + role + ".token",
		ca:         state + role + ".ca.crt",
		record:     state + role + ".installed",
		claim:      "/run/nodemend/host-units-" + role + ".claim",
	}
}

// files are all of the layout, to be changed.
func (l *layout) files() []*string {
	return []*string{&l.binary, &l.unit, &l.link, &l.kubeconfig, &l.token, &l.ca, &l.record, &l.claim}
}

// directories are those that may have been made for the files, the deepest first.
func directories() []string {
	return []string{DefaultBinDir, path.Dir(DefaultBinDir), "/etc/nodemend", "/var/lib/nodemend"}
}
