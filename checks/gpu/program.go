package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/child"
)

// program runs nvidia-smi. It is used by one goroutine at a time.
type program struct {
	// path and root are what people have set.
	path, root string
	// limit is how long it may take.
	limit time.Duration
	// unknown are the fields that it did not know when the driver was of this version.
	unknown []string
	version string
}

// place is where nvidia-smi is: its path, where its file system begins ("": as that of this process).
type place struct{ root, path string }

// maxOutput is far more than it says of the GPUs of any node.
const maxOutput = 256 << 10

// errLate is why it was killed.
var errLate = errors.New("it has not answered in time")

// ask asks it once, or several times if it does not know a field.
func (p *program) ask(ctx context.Context, version string) answer {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limit, errLate)
	defer cancel()
	where, err := p.find()
	if err != nil {
		return answer{err: err}
	}
	if where.path == "" {
		return answer{absent: true}
	}
	if p.version != version {
		p.version, p.unknown = version, nil
	}
	a := p.query(ctx, where, "gpu", slices.DeleteFunc(fields(), p.isUnknown))
	for a.unknown != "" && a.unknown != fieldAddress && !p.isUnknown(a.unknown) {
		p.unknown = append(p.unknown, a.unknown)
		klog.FromContext(ctx).Info("Driver of the GPUs does not know a field", "field", a.unknown, "driver", version)
		a = p.query(ctx, where, "gpu", slices.DeleteFunc(fields(), p.isUnknown))
	}
	a.untold = slices.Clone(p.unknown)
	// Before they were among the fields of GPUs, they had a question of their own.
	if rows := []string{fieldPending, fieldFailed}; len(a.rows) > 0 && slices.ContainsFunc(rows, p.isUnknown) {
		a.add(p.query(ctx, where, "remapped-rows", []string{"gpu_bus_id", fieldPending, fieldFailed}), rows)
	}
	return a
}

func (p *program) isUnknown(field string) bool { return slices.Contains(p.unknown, field) }

// add adds fields of another answer.
func (a *answer) add(other answer, fields []string) {
	a.late = a.late || other.late
	for address, row := range a.rows {
		for _, field := range fields {
			if value, told := other.rows[address][field]; told {
				row[field] = value
				a.untold = slices.DeleteFunc(a.untold, func(f string) bool { return f == field })
			}
		}
	}
}

// query asks for fields of what: all GPUs, or their remapped rows.
func (p *program) query(ctx context.Context, where place, what string, fields []string) answer {
	out := child.Head{Limit: maxOutput}
	cmd := &exec.Cmd{
		Path: where.path, Args: []string{where.path, "--query-" + what + "=" + strings.Join(fields, ","), "--format=csv,noheader,nounits"},
		Dir: "/", Env: where.env(), Stdout: &out, Stderr: &out, WaitDelay: time.Second,
	}
	err := child.RunBelow(ctx, where.root, cmd)
	if errors.Is(err, errLate) {
		return answer{late: true}
	}
	a := parse(out.String(), fields)
	exit := (*exec.ExitError)(nil)
	switch {
	case errors.Is(err, unix.EPERM) && where.root != "":
		a.err = fmt.Errorf("%s: %w: to run it in %s takes CAP_SYS_CHROOT", where.path, err, where.root)
	case err != nil && !errors.As(err, &exit):
		a.err = err
	case err != nil && len(a.rows)+len(a.refusals) == 0 && a.rest == "":
		a.err = fmt.Errorf("%s: %w", where.path, err)
	}
	return a
}

// env has the folder of the driver's libraries, where those are beside the program.
func (w place) env() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	libraries := filepath.Join(filepath.Dir(filepath.Dir(w.path)), "lib64")
	if _, err := os.Stat(filepath.Join(w.root, libraries, "libnvidia-ml.so.1")); err == nil {
		env = append(env, "LD_LIBRARY_PATH="+libraries)
	}
	return env
}

// find looks for it on the host, and in the container that NVIDIA's operator has its driver in. An
// empty path says that it is not there.
func (p *program) find() (place, error) {
	if p.path != "" {
		where := place{p.root, p.path}
		if _, err := os.Lstat(where.inside()); err != nil {
			return place{}, fmt.Errorf("nvidiaSMI is set, and can't be run: %w", err)
		}
		return where, nil
	}
	root := hostRoot()
	for _, where := range []place{
		{root, "/usr/bin/nvidia-smi"},
		{root, "/usr/local/bin/nvidia-smi"},
		{root, "/usr/local/nvidia/bin/nvidia-smi"},
		{root, "/home/kubernetes/bin/nvidia/bin/nvidia-smi"}, // Google's Container-Optimized OS
		{root, "/run/current-system/sw/bin/nvidia-smi"},      // NixOS
		{root + "/run/nvidia/driver", "/usr/bin/nvidia-smi"},
	} {
		// No more: a link is one as seen from the root.
		_, err := os.Lstat(where.inside())
		if err == nil {
			return where, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, fs.ErrPermission) {
			return place{}, err
		}
	}
	return place{}, nil
}

// inside is where it is as seen by this process.
func (w place) inside() string { return filepath.Clean(w.root + w.path) }

// hostRoot is where the file system of the host begins; "" if that is this process's, or is not seen.
func hostRoot() string {
	root := filepath.Join(checks.HostProcess, "root")
	theirs, err := os.Stat(root + "/")
	if err != nil {
		return ""
	}
	if ours, err := os.Stat("/"); err != nil || os.SameFile(ours, theirs) {
		return ""
	}
	return root
}
