package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// lookEvery is how often a drain is looked at.
	lookEvery = time.Second
	// silentFor is after how long somebody who waits for the controller is told so.
	silentFor = 15 * time.Second
	// barWidth is how many characters a bar has.
	barWidth = 30
)

// progress shows how far a drain is until it is done: as a bar that moves on a
// terminal, elsewhere as a line for each change.
func (t *tool) progress(ctx context.Context, c client.Client, name string) error {
	began := t.clock.Now()
	terminal, last, told := isTerminal(t.streams), "", false
	defer func() {
		if terminal && last != "" {
			t.printf("\n")
		}
	}()
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		var m v1alpha1.NodeMaintenance
		if err := c.Get(ctx, types.NamespacedName{Name: name}, &m); apierrors.IsNotFound(err) {
			return false, fmt.Errorf("maintenance %s was ended before the node was drained", name)
		} else if err != nil {
			return false, err
		}
		drained := m.Condition(v1alpha1.MaintenanceDrained)
		if drained == nil {
			if !told && t.clock.Since(began) > silentFor {
				told = true
				t.printf("the controller has not begun yet: does it run? kubectl nodemend status\n")
			}
			return false, nil
		}
		if line := bar(&m); line != last {
			last = line
			if terminal {
				t.printf("\r\x1b[K%s", line)
			} else {
				t.printf("%s\n", line)
			}
		}
		if drained.Reason == v1alpha1.ReasonDrainAborted {
			return false, errors.New("the drain was given up: " + drained.Message)
		}
		return m.Drained(), nil
	})
}

func isTerminal(streams genericiooptions.IOStreams) bool {
	file, ok := streams.Out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// bar is "[######------] 50%, 3 of 6 pods left: default/web-0 (DisruptionBudget)".
func bar(m *v1alpha1.NodeMaintenance) string {
	d := m.Status.Drain
	if d == nil {
		return drainState(m)
	}
	full := int(d.Percent) * barWidth / 100
	line := fmt.Sprintf("[%s%s] %d%%, %d of %d pods left", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), d.Percent, d.Left, d.Total)
	for i := range d.Pods {
		if p := &d.Pods[i]; p.Reason != v1alpha1.PodTerminating && p.Reason != v1alpha1.PodEvictable {
			return line + fmt.Sprintf(": %s/%s (%s)", p.Namespace, p.Name, p.Reason)
		}
	}
	return line
}
