package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// noFailureStatus is what nodemend hardware ack exits with if there is no failure to be acknowledged.
const noFailureStatus = 3

// maxAnswer is how many bytes of what a node says are read.
const maxAnswer = 64 << 10

// detectors returns the pods of Nodemend's detector on nodes, by the names of these. What another pod
// says, in whatever namespace and with whatever labels, would be believed, and nothing acknowledged.
func (t *tool) detectors(ctx context.Context, c client.Client, nodes []corev1.Node) (map[string]corev1.Pod, error) {
	opts := []client.ListOption{client.MatchingLabels{nameLabel: "nodemend", componentLabel: "detector"}}
	if len(nodes) == 1 { // of thousands
		opts = append(opts, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", nodes[0].Name)})
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, opts...); err != nil {
		return nil, err
	}
	found := map[string]corev1.Pod{}
	if len(pods.Items) == 0 {
		return found, nil
	}
	namespace, err := home(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		if p.Namespace != namespace || p.Spec.ServiceAccountName != detectorAccount {
			continue
		}
		if before, ok := found[p.Spec.NodeName]; !ok || before.DeletionTimestamp != nil {
			found[p.Spec.NodeName] = p
		}
	}
	return found, nil
}

// onNode runs a command of nodemend in the detector's pod of a node, with the configuration that
// it has, and returns what it prints. It does so by kubectl, with the flags that were given here.
func (t *tool) onNode(ctx context.Context, detectors map[string]corev1.Pod, nodeName string, command ...string) (string, error) {
	pod, ok := detectors[nodeName]
	if !ok {
		return "", errors.New("no pod of the detector is on it (units of the host have none)")
	}
	line, err := inPod(&pod, command)
	if err != nil {
		return "", err
	}
	args := []string{"exec", "--namespace=" + pod.Namespace, pod.Name, "--container=detector"}
	t.global.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		if values, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range values.GetSlice() {
				args = append(args, "--"+f.Name+"="+value)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	cmd := exec.CommandContext(ctx, "kubectl", slices.Concat(args, []string{"--"}, line)...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = capped{&out}, capped{&complaint}
	err = cmd.Run()
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		said := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(complaint.String()), fmt.Sprintf("command terminated with exit code %d", failed.ExitCode())))
		err := fmt.Errorf("pod %s/%s: %s", pod.Namespace, pod.Name, oneLine(said))
		if failed.ExitCode() == noFailureStatus {
			err = fmt.Errorf("%w (%w)", errNoFailure, err)
		}
		return "", err
	case err != nil:
		return "", fmt.Errorf("running kubectl: %w", err)
	}
	return out.String(), nil
}

// inPod returns the command line in a pod of the detector.
func inPod(pod *corev1.Pod, command []string) ([]string, error) {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "detector" })
	if i < 0 || len(pod.Spec.Containers[i].Command) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no container detector with a command", pod.Namespace, pod.Name)
	}
	detector := pod.Spec.Containers[i]
	line := append([]string{detector.Command[0]}, command...)
	all := slices.Concat(detector.Command[1:], detector.Args)
	for i, arg := range all {
		if file, ok := strings.CutPrefix(strings.TrimPrefix(arg, "-"), "-config="); ok {
			line = append(line, "--config="+file)
		} else if arg == "--config" && i+1 < len(all) {
			line = append(line, "--config="+all[i+1])
		}
	}
	return line, nil
}

// capped takes everything and keeps the beginning.
type capped struct{ *bytes.Buffer }

var _ io.Writer = capped{}

func (c capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, maxAnswer-c.Len()))])
	return len(p), nil
}
