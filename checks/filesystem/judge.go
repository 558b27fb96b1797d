package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
)

const (
	// A larger file system counts as one of this size: a percent of a large one is not
	// hardly anything.
	largeSpace  = 100 << 30 // bytes
	largeInodes = 1_000_000
)

// finding is something that is not well.
type finding = checks.Finding

// waiting is a look that has not returned.
type waiting struct{ since time.Duration }

// problems are what is wrong with one file system; of w, if not nil, nothing was seen yet.
func (f fileSystem) problems(seen found, w *waiting, o Options) (all []finding) {
	add := func(reason, format string, args ...any) {
		all = append(all, finding{Reason: reason, Text: f.String() + ": " + fmt.Sprintf(format, args...)})
	}
	damage := ""
	if f.errors.count > 0 {
		damage = fmt.Sprintf("ext4 has counted %d error(s)", f.errors.count)
		if !f.errors.last.IsZero() {
			damage += fmt.Sprintf(", the last in %s at %s", f.errors.in, f.errors.last.Format(time.RFC3339))
		}
	}
	switch {
	case f.shutdown:
		add(ReasonFailed, "%s", join("it was shut down: everything but what is in memory fails until it is mounted anew", damage))
	case f.readOnly, seen.refuses:
		add(ReasonReadOnly, "%s", join("the kernel lets nobody write any more", damage))
	case damage != "":
		add(ReasonErrors, "%s: unmount it and run e2fsck, which counts anew", damage)
	}
	switch {
	case w != nil && w.since >= o.MaxWait:
		add(ReasonHung, "has not answered for %s", w.since.Round(time.Second))
	case w != nil:
		add(ReasonSlow, "has not answered for %s yet", w.since.Round(time.Second))
	case seen.err == nil && f.toBeRead: // an image is full on purpose
	case seen.err == nil:
		all = append(all, f.shortages(seen, o.MinAvailable)...)
	case errors.Is(seen.err, errHidden), errors.Is(seen.err, fs.ErrNotExist): // it is gone, or nobody can use it
	case failed(seen.err):
		if !f.shutdown {
			add(ReasonFailed, "%s: it was shut down, or its disk is gone", describe(seen.err))
		}
	default:
		add(ReasonNotSeen, "%s", describe(seen.err))
	}
	return all
}

// shortages are what the file system has hardly anything of.
func (f fileSystem) shortages(seen found, percent int) (all []finding) {
	if short(seen.space, largeSpace, percent) {
		all = append(all, finding{Reason: ReasonFull, Text: fmt.Sprintf("%s: %d MiB of %d MiB are available", f, seen.space.available>>20, seen.space.all>>20)})
	}
	if short(seen.inodes, largeInodes, percent) {
		all = append(all, finding{Reason: ReasonInodes, Text: fmt.Sprintf("%s: %d of %d inodes are available", f, seen.inodes.available, seen.inodes.all)})
	}
	return all
}

// short is whether less than so many percent are available, of what counts at most as large.
func short(s share, large uint64, percent int) bool {
	return s.all > 0 && s.available < min(s.all, large)/100*uint64(percent)
}

// writing is what a written block tells about its folder; false if none can be written
// there: the folder does not exist, or files without a name don't.
func writing(folder string, seen found, w *waiting, o Options) (f finding, there bool) {
	at := func(reason, format string, args ...any) finding {
		return finding{Reason: reason, Text: folder + ": " + fmt.Sprintf(format, args...)}
	}
	switch err := seen.err; {
	case w != nil && w.since >= o.MaxWait:
		return at(ReasonHung, "a block is not written for %s", w.since.Round(time.Second)), true
	case w != nil:
		return at(ReasonSlow, "a block is not written for %s yet", w.since.Round(time.Second)), true
	case err == nil:
		return finding{}, true
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR):
		return finding{}, false
	case errors.Is(err, unix.EROFS):
		return at(ReasonReadOnly, "nothing can be written"), true
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return at(ReasonFull, "a block could not be written: %s", describe(err)), true
	case failed(err):
		return at(ReasonWriteFailed, "a block could not be written: %s", describe(err)), true
	default:
		return at(ReasonNotSeen, "%s", describe(err)), true
	}
}

// failed is whether an error is one of a disk or of a file system that is out of order.
func failed(err error) bool {
	return slices.ContainsFunc([]unix.Errno{unix.EIO, unix.EUCLEAN, unix.EBADMSG, unix.ENXIO, unix.ENODEV, unix.ESHUTDOWN, unix.EREMOTEIO, unix.ENODATA, unix.ETIMEDOUT},
		func(errno unix.Errno) bool { return errors.Is(err, errno) })
}

// verdict is what all findings mean.
func verdict(findings []finding, healthy string) checks.Result {
	return checks.Judge(findings, grave(), checks.Healthy(ReasonHealthy, healthy))
}

// join joins what there is of two texts.
func join(text, more string) string {
	if more == "" {
		return text
	}
	return text + "; " + more
}
