package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/runner/command"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// journalctl is where the host has it. No path is searched: others may write to some of it.
	journalctl = "/usr/bin/journalctl"
	// journalTime is how long it may take: a journal of many GB, on a disk that has just come back.
	journalTime = 30 * time.Second
	// journalLines are asked for. Of these the last 4 KiB are kept.
	journalLines = 60

	// eventLogTime is how long a BMC may take: a slow one with a full log takes a minute.
	eventLogTime = 2 * time.Minute
	// eventLogBefore is how long before the claim what it has logged is shown. The node was sick by then.
	eventLogBefore = time.Hour
)

// remains asks a node what a boot has left.
type remains struct {
	root    string // of the host
	command remedy.Remedy
	// vetoed is as in WorkerOptions.
	vetoed func(context.Context, remedy.Order) string
	// journal is the program with arguments that come first.
	journal []string
	// bmc opens the node's own BMC; fs.ErrNotExist: it has none.
	bmc   func() (eventLog, error)
	clock clock.WithTicker
}

// eventLog is a BMC's log of events, with the clock by which it stamps them: see device.Device.
type eventLog interface {
	Timestamp(ctx context.Context) (uint32, error)
	Events(ctx context.Context, after ipmi.Cursor) (ipmi.EventLog, error)
	Close() error
}

// newRemains returns what asks the host.
func newRemains(opts Options, vetoed func(context.Context, remedy.Order) string) *remains {
	at := opts.host()
	at.Execution = string(command.Direct) // it ends with this process
	return &remains{
		root: opts.HostRoot, command: command.Kind().New(at), vetoed: vetoed, journal: []string{journalctl}, clock: opts.Clock,
		bmc: func() (eventLog, error) { return device.Open(filepath.Join(opts.HostRoot, "dev", "ipmi0")) },
	}
}

// sources are all that there are.
func (h *remains) sources() []leftovers {
	return []leftovers{{v1alpha1.LeftoverJournal, h.lastLines}, {v1alpha1.LeftoverPstore, h.pstore}, {v1alpha1.LeftoverEventLog, h.events}}
}

// lastLines are those of the journal of the dead boot. It is found by its ID, so that no clock
// matters.
func (h *remains) lastLines(ctx context.Context, of endedBoot) (text string, truncated bool, err error) {
	text, truncated, err = h.ask(ctx, of, of.output,
		"--boot="+plain(of.bootID), fmt.Sprintf("--lines=%d", journalLines), "--output=short-iso", "--utc", "--no-hostname")
	if err == nil && strings.TrimSpace(text) == "" {
		err = errors.New("the journal has nothing of that boot: is it kept across boots (/var/log/journal, Storage=persistent)?")
	}
	return text, truncated, err
}

// ask runs journalctl on the host as a command of a policy, with the same bounds, unless the node's
// owner denies that program.
func (h *remains) ask(ctx context.Context, of endedBoot, output *v1alpha1.OutputPolicy, arguments ...string) (text string, truncated bool, err error) {
	argv := slices.Concat(h.journal, []string{"--no-pager", "--quiet"}, arguments)
	order := remedy.Order{
		Action: of.action + ".aftermath", UID: types.UID(of.bootID), BootID: of.now, StartedAt: h.clock.Now(), Output: output,
		Env:  []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"},
		Step: v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: argv}, Timeout: v1alpha1.Duration{Duration: journalTime}},
	}
	if reason := h.vetoed(ctx, order); reason != "" {
		return "", false, errors.New(reason)
	}
	var refused *remedy.Outcome
	if order.Prepared, refused = h.command.Prepare(ctx, order); refused != nil {
		return "", false, errors.New(refused.Message)
	}
	if err := h.command.Clean(ctx, order); err != nil { // what a runner has left that was killed
		return "", false, fmt.Errorf("asking the journal: %w", err)
	}
	defer func() { _ = h.command.Clean(context.WithoutCancel(ctx), order) }() // or the next time
	outcome := h.command.Execute(ctx, order)
	if outcome == nil {
		return "", false, ctx.Err()
	}
	if outcome.Result != nil {
		text, truncated = outcome.Result.Output, outcome.Result.OutputTruncated
	}
	if outcome.Reason != v1alpha1.ReasonSucceeded {
		err = fmt.Errorf("%s: %s", argv[0], outcome.Message)
	}
	return text, truncated, err
}

// namesIn lists a directory below root.
func namesIn(root, name string) ([]string, error) {
	dir, err := openInRoot(root, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // was only read
	return dir.Readdirnames(-1)
}

// tailInRoot reads the end of a file below root, beneath which all its links lead. It has to be a
// regular one.
func tailInRoot(root, name string, most int64) (text string, truncated bool, err error) {
	file, err := openInRoot(root, name, 0)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = file.Close() }() // was only read
	is, err := file.Stat()
	switch {
	case err != nil:
		return "", false, err
	case !is.Mode().IsRegular():
		return "", false, errors.New("it is no regular file")
	}
	if size := is.Size(); size > most {
		if _, err := file.Seek(size-most, io.SeekStart); err != nil {
			return "", false, err
		}
		truncated = true
	}
	data, err := io.ReadAll(io.LimitReader(file, most))
	return string(data), truncated, err
}

// events are what the BMC has logged since an hour before the claim. How long ago that was its own
// clock tells, whatever the time is by it. Where it does not, as of what was logged before that clock was
// set, rather more is shown.
func (h *remains) events(ctx context.Context, of endedBoot) (text string, truncated bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, eventLogTime)
	defer cancel()
	bmc, err := h.bmc()
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, errors.New("the node has no /dev/ipmi0: no BMC, or no driver")
	}
	if err != nil {
		return "", false, err
	}
	defer func() { _ = bmc.Close() }() // was only read
	now, err := bmc.Timestamp(ctx)
	if err != nil {
		return "", false, fmt.Errorf("asking the BMC for its time: %w", err)
	}
	log, err := bmc.Events(ctx, ipmi.Cursor{})
	if err != nil { // what was read so far is the oldest, and not asked for
		return "", false, fmt.Errorf("reading the BMC's log to its end: %w", err)
	}
	var whole strings.Builder
	for _, e := range log.Events[newEvents(log.Events, now, of.since+eventLogBefore):] {
		whole.WriteString(told(e) + "\n")
	}
	text, truncated = command.Kept(of.output, whole.String())
	return text, truncated, nil
}

// newEvents returns the index of the first event after the last one that is older than age, at a
// time by the clock of the log.
func newEvents(events []ipmi.Event, now uint32, age time.Duration) int {
	const sinceStart = 0x20000000 // up to here it is no date
	for i, e := range slices.Backward(events) {
		if e.Timestamp <= sinceStart == (now <= sinceStart) && time.Duration(int64(now)-int64(e.Timestamp))*time.Second > age {
			return i + 1
		}
	}
	return 0
}

// told is an event of the BMC as a line.
func told(e ipmi.Event) string {
	at := "Pre-Init"
	if !e.Time.IsZero() {
		at = e.Time.UTC().Format(time.RFC3339)
	}
	if !e.OfSensor() {
		return fmt.Sprintf("%s record 0x%02x of the maker's own kind, raw %s", at, e.ID, e.Raw)
	}
	direction := "Deasserted"
	if e.Asserted {
		direction = "Asserted"
	}
	name := e.SensorName
	if name == "" {
		name = fmt.Sprintf("#0x%02x", e.SensorNumber)
	}
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s: %s %s, raw %s", at, e.SensorType, name, e.StateName(), direction, e.Raw)), " ")
}
