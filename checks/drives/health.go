package drives

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// health is what a drive tells of itself.
type health struct {
	// asleep is whether it was not asked any further, so as not to wake it.
	asleep bool
	// none is whether it keeps no account of its health.
	none bool
	// findings are what it calls wrong, without its name.
	findings []finding
	// media are the blocks that it has lost in its life, if it has counted them.
	media   uint64
	counted bool
	// used is how much of its life is used, in percent, as its maker counts it; 0 if it does
	// not tell.
	used int
	// notes are for people.
	notes []string
	err   error
}

func (h *health) add(reason, format string, args ...any) {
	h.findings = append(h.findings, finding{Reason: reason, Text: fmt.Sprintf(format, args...)})
}

// ask asks a drive whose device is in the folder dev how it is. It writes nothing to it. It may
// never return.
func ask(dev string, d drive) health {
	path := filepath.Join(dev, d.device)
	// O_NONBLOCK: it is not waited for a medium.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return health{err: &os.PathError{Op: "open", Path: path, Err: err}}
	}
	defer func() { _ = unix.Close(fd) }() // was only read
	var h health
	switch d.language {
	case nvme:
		h, err = askNVMe(fd)
	case ata:
		h, err = askATA(again(sgio(fd)))
	case scsi:
		h, err = askSCSI(again(sgio(fd)))
	}
	h.err = err
	return h
}

// describe tells why a drive could not be asked, and what to do.
func describe(err error) string {
	switch {
	case errors.Is(err, unix.ENOENT):
		return err.Error() + ": mount the host's /dev, or set health: false"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return err.Error() + ": it takes root with CAP_SYS_ADMIN and CAP_SYS_RAWIO, and access to the device; or set health: false"
	}
	return err.Error()
}

// note is what people are told of a drive that is well.
func (h health) note() string {
	switch {
	case h.asleep:
		return "asleep"
	case h.none:
		return "tells nothing of its health"
	}
	notes := h.notes
	if h.used > 0 {
		notes = append(notes, fmt.Sprintf("%d %% used", h.used))
	}
	if h.media > 0 {
		notes = append(notes, fmt.Sprintf("%d media errors in its life", h.media))
	}
	return strings.Join(notes, ", ")
}
