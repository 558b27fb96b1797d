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

// pstore is what the kernel kept. What systemd-pstore has moved it has said in the journal of this
// boot. Where nobody moves it, each record stays until somebody deletes it: the dead boot's are those of after its
// first entry in the journal. The same clock has stamped both.
func (h *remains) pstore(ctx context.Context, of endedBoot) (text string, truncated bool, err error) {
	moved, cutOff, err := h.ask(ctx, of, nil, "--boot="+strings.ReplaceAll(of.now, "-", ""), "--output=cat", "_UID=0", "SYSLOG_IDENTIFIER=systemd-pstore")
	if err == nil && cutOff {
		err = errors.New("systemd-pstore has moved more files than its last messages name")
	}
	began := func() (time.Time, error) {
		boots, _, err := h.ask(ctx, of, nil, "--list-boots", "--utc")
		if err != nil {
			return time.Time{}, err
		}
		return firstEntry(boots, of.bootID)
	}
	own, ownErr := h.ownRecords(ctx, began)
	err = errors.Join(err, ownErr)
	type answer struct {
		files []keptFile
		err   error
	}
	got, late := bounded.Call(ctx, h.clock, pstoreTime, func() answer {
		files, err := h.keptFiles(slices.Concat(movedFiles(moved), own), of.output != nil && len(of.output.Redact) > 0)
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

// firstEntry returns when a boot has begun, from what journalctl --list-boots says of it.
func firstEntry(boots, bootID string) (time.Time, error) {
	first := regexp.MustCompile(strings.ReplaceAll(bootID, "-", "") + ` +\w+ (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC`).FindStringSubmatch(boots)
	if first == nil {
		return time.Time{}, errors.New("the journal has nothing of that boot")
	}
	return time.Parse(time.DateTime, first[1])
}

// ownRecords returns the records in pstore that are of a boot which began then. An error names those that are not,
// or says that nobody knows; then all are returned.
func (h *remains) ownRecords(ctx context.Context, began func() (time.Time, error)) (paths []string, err error) {
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
	start, err := began()
	if err != nil {
		newest := slices.MaxFunc(got.records, func(a, b crashRecord) int { return a.at.Compare(b.at) })
		err = fmt.Errorf("whether the records of /%s are of that boot is not known, the newest one is of %s: %w", pstoreDir, newest.at.UTC().Format(time.RFC3339), err)
	}
	older := 0
	for _, r := range got.records {
		if r.at.Before(start) {
			older++
			continue
		}
		paths = append(paths, r.path)
	}
	if older > 0 {
		err = fmt.Errorf("%d records of /%s are of before that boot, which began at %s, and are left out", older, pstoreDir, start.Format(time.RFC3339))
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
