package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/runner/command"
)

const (
	// pstoreDir is the kernel's, pstoreArchive that of systemd-pstore, which moves files there.
	pstoreDir     = "sys/fs/pstore"
	pstoreArchive = "var/lib/systemd/pstore"
	// pstoreTime is how long the file systems of both may take to answer.
	pstoreTime = 10 * time.Second
	// maxPstore is how many files are read, and how many bytes of each.
	maxPstore     = 64
	maxPstoreSize = 64 << 10
)

// pstore is what the kernel kept. What systemd-pstore has moved it has said in the journal of the boot after the dead
// one. Where nobody moves it, each record stays until somebody deletes it: the dead boot's are those of after its
// first entry in the journal, and before that of the next boot. The same clock has stamped both.
func (h *remains) pstore(ctx context.Context, of endedBoot) (text string, truncated bool, err error) {
	span, unknown := h.span(ctx, of)
	said, cutOff, err := h.ask(ctx, of, nil, "--boot="+span.next, "--output=cat", "_UID=0", "SYSLOG_IDENTIFIER=systemd-pstore")
	moved := movedFiles(said)
	if err == nil && cutOff {
		err = errors.New("systemd-pstore has moved more files than its last messages name")
	}
	if unknown != nil && len(moved) > 0 {
		err = errors.Join(err, fmt.Errorf("whether what systemd-pstore has moved is of that boot is not known: %w", unknown))
	}
	if span.between > 0 {
		err = errors.Join(err, fmt.Errorf("%d boots lie between that one and this: what the kernel kept of them, and what was moved after the first of them, is left out", span.between))
	}
	own, ownErr := h.ownRecords(ctx, span, unknown)
	err = errors.Join(err, ownErr)
	type answer struct {
		files []keptFile
		err   error
	}
	got, late := bounded.Call(ctx, h.clock, pstoreTime, func() answer {
		files, err := h.keptFiles(slices.Concat(moved, own), of.output != nil && len(of.output.Redact) > 0)
		return answer{files, err}
	})
	if late != nil {
		return "", false, errors.Join(err, fmt.Errorf("reading %s and %s: %w", pstoreDir, pstoreArchive, late))
	}
	var whole strings.Builder
	for _, file := range got.files {
		fmt.Fprintf(&whole, "--- /%s\n%s\n", file.path, strings.TrimRight(file.text, "\n"))
		truncated = truncated || file.truncated
	}
	text, cutOff = command.Kept(of.output, whole.String())
	return text, truncated || cutOff, errors.Join(err, got.err)
}

// movedFiles are the files that systemd-pstore says to have moved, below its archive.
func movedFiles(messages string) (paths []string) {
	for line := range strings.Lines(messages) {
		_, to, said := strings.Cut(strings.TrimRight(line, "\n"), " moved to ")
		to = strings.TrimPrefix(path.Clean(to), "/")
		if said && strings.HasPrefix(to, pstoreArchive+"/") && !slices.Contains(paths, to) {
			paths = append(paths, to)
		}
	}
	return paths
}

// bootSpan is what the journal says of a boot that is over, and of those after it.
type bootSpan struct {
	began time.Time
	// next is the boot after it: that which asks, unless between, the number of boots in between, is more than zero. Then
	// it began at ended.
	next    string
	between int
	ended   time.Time
}

// span asks the journal. An error says that it knows nothing of the boot.
func (h *remains) span(ctx context.Context, of endedBoot) (bootSpan, error) {
	boots, _, err := h.ask(ctx, of, nil, "--list-boots", "--utc")
	if err != nil {
		return bootSpan{next: plain(of.now)}, err
	}
	return spanIn(boots, of.bootID, of.now)
}

var bootEntry = regexp.MustCompile(`([0-9a-f]{32}) +\w+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC`)

// spanIn is span from what journalctl --list-boots says, which has the boots in their order.
func spanIn(boots, bootID, now string) (bootSpan, error) {
	span, known := bootSpan{next: plain(now)}, false
	for _, entry := range bootEntry.FindAllStringSubmatch(boots, -1) {
		id := entry[1]
		at, err := time.Parse(time.DateTime, entry[2])
		switch {
		case err != nil:
			return span, err
		case id == plain(bootID):
			span.began, known = at, true
		case !known:
		case id == plain(now):
			return span, nil
		case span.between == 0:
			span.next, span.between, span.ended = id, 1, at
		default:
			span.between++
		}
	}
	if !known {
		return span, errors.New("the journal has nothing of that boot")
	}
	return span, nil
}

// plain is a boot ID as the journal writes it.
func plain(bootID string) string { return strings.ReplaceAll(bootID, "-", "") }

// ownRecords returns the records in pstore that are of a boot. An error names those that are of before it, or says that
// nobody knows; then all are returned.
func (h *remains) ownRecords(ctx context.Context, of bootSpan, unknown error) (paths []string, err error) {
	type answer struct {
		records []crashRecord
		err     error
	}
	got, late := bounded.Call(ctx, h.clock, pstoreTime, func() answer {
		records, err := crashRecordsIn(h.root)
		return answer{records, err}
	})
	if late != nil {
		return nil, fmt.Errorf("reading %s: %w", pstoreDir, late)
	}
	if len(got.records) == 0 {
		return nil, got.err
	}
	if unknown != nil {
		newest := slices.MaxFunc(got.records, func(a, b crashRecord) int { return a.at.Compare(b.at) })
		err = fmt.Errorf("whether the records of /%s are of that boot is not known, the newest one is of %s: %w", pstoreDir, newest.at.UTC().Format(time.RFC3339), unknown)
	}
	older := 0
	for _, r := range got.records {
		switch {
		case r.at.Before(of.began):
			older++
		case of.between == 0 || r.at.Before(of.ended):
			paths = append(paths, r.path)
		}
	}
	if older > 0 {
		err = fmt.Errorf("%d records of /%s are of before that boot, which began at %s, and are left out", older, pstoreDir, of.began.Format(time.RFC3339))
	}
	return paths, errors.Join(got.err, err)
}

// crashRecord is a file in pstore, with the time that the kernel has stamped it with, or that of the mount.
type crashRecord struct {
	path string
	at   time.Time
}

func crashRecordsIn(root string) (all []crashRecord, err error) {
	names, err := namesIn(root, pstoreDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, name := range names {
		file := path.Join(pstoreDir, name)
		at, statErr := timeInRoot(root, file)
		if statErr != nil {
			err = errors.Join(err, fmt.Errorf("reading /%s: %w", file, statErr))
			continue
		}
		all = append(all, crashRecord{file, at})
	}
	return all, err
}

// timeInRoot returns when a file below root was changed.
func timeInRoot(root, name string) (time.Time, error) {
	file, err := openInRoot(root, name, 0)
	if err != nil {
		return time.Time{}, err
	}
	defer func() { _ = file.Close() }() // was only read
	is, err := file.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return is.ModTime(), nil
}

// keptFile is a file of a crash.
type keptFile struct {
	path, text string
	truncated  bool
}

// keptFiles reads what the kernel kept and systemd-pstore has moved, in an order in which what came last
// is last: of a record in parts, part 1 is the end, and the names count parts up. If the kernel has told
// of a crash, what else it kept is left out.
func (h *remains) keptFiles(paths []string, redacts bool) (files []keptFile, err error) {
	for i, file := range paths { // systemd has put the parts together
		if dir := path.Dir(file); dir != pstoreArchive && dir != pstoreDir {
			if whole := path.Join(dir, "dmesg.txt"); h.isFile(whole) {
				paths[i] = whole
			}
		}
	}
	isDmesg := func(file string) bool { return strings.HasPrefix(path.Base(file), "dmesg") }
	if slices.ContainsFunc(paths, isDmesg) {
		paths = slices.DeleteFunc(paths, func(file string) bool { return !isDmesg(file) })
	}
	paths = slices.DeleteFunc(paths, func(file string) bool { return strings.HasSuffix(file, ".enc.z") }) // nobody can read it
	slices.SortFunc(paths, func(a, b string) int { return strings.Compare(b, a) })
	paths = slices.Compact(paths)
	if left := len(paths) - maxPstore; left > 0 {
		paths = paths[left:]
		err = errors.Join(err, fmt.Errorf("%d more files are not read", left))
	}
	for _, file := range paths {
		text, truncated, readErr := tailInRoot(h.root, file, maxPstoreSize)
		if readErr != nil {
			err = errors.Join(err, fmt.Errorf("reading /%s: %w", file, readErr))
			continue
		}
		if truncated || redacts { // it may begin within a line, so that a pattern does not find what it is for
			_, text, _ = strings.Cut(text, "\n")
		}
		files = append(files, keptFile{path: file, text: text, truncated: truncated})
	}
	return files, err
}

func (h *remains) isFile(name string) bool {
	_, _, err := tailInRoot(h.root, name, 0)
	return err == nil
}
