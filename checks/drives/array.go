package drives

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/checks"
)

// array is one of the kernel's RAID driver, md (Documentation/admin-guide/md.rst of Linux).
// procfs reads it, too, but an array that is stopped meanwhile costs it all others.
type array struct {
	name, level, state string
	// disks is how many it has when nothing is missing, and degraded how many are missing.
	disks, degraded int
	// failed are those that it uses no more.
	failed []string
	// sync is what it does with its disks, such as recover, and done how much of it, such as
	// 12345 / 67890 sectors.
	sync, done string
}

// inactive is the state of an array that has disks and was not started.
const inactive = "inactive"

// array returns an array; none if it is not in use, or only a frame for others.
func (s sys) array(name string) []array {
	of := func(file ...string) string { return s.text(append([]string{"block", name, "md"}, file...)...) }
	a := array{name: name, level: of("level"), state: of("array_state"), sync: of("sync_action"), done: of("sync_completed")}
	// A container of the firmware's RAID has no level, and its arrays name it: external:/md127/0.
	format, external := strings.CutPrefix(of("metadata_version"), "external:")
	container := external && !strings.HasPrefix(format, "/") && !strings.HasPrefix(format, "-")
	if a.state == "" || a.state == "clear" || container || a.level == "" && a.state != inactive {
		return nil
	}
	// While it grows, the number of its disks has the former one behind it: 4 (3).
	disks, _, _ := strings.Cut(of("raid_disks"), " ")
	a.disks, a.degraded = number(disks), number(of("degraded"))
	members, err := s.list("dev-", "block", name, "md")
	if err != nil {
		return nil // it has gone meanwhile
	}
	for _, m := range members {
		if strings.Contains(of(m, "state"), "faulty") {
			a.failed = append(a.failed, strings.TrimPrefix(m, "dev-"))
		}
	}
	return []array{a}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0 // a level without disks that can be missing
	}
	return n
}

// spare is how many disks an array can do without.
func (a array) spare() int {
	switch a.level {
	case "raid1":
		return a.disks - 1
	case "raid4", "raid5":
		return 1
	case "raid6":
		return 2
	default: // of raid10 that is not known
		return a.disks
	}
}

// findings are what is wrong with an array.
func (a array) findings() []finding {
	missing := fmt.Sprintf("%d of %d disks are missing", a.degraded, a.disks)
	if a.degraded == 1 {
		missing = fmt.Sprintf("1 of %d disks is missing", a.disks)
	}
	if len(a.failed) > 0 {
		missing += ", " + strings.Join(a.failed, ", ") + " has failed"
	}
	found := func(reason, text string) []finding {
		return []finding{{Reason: reason, Text: a.String() + ": " + text}}
	}
	switch {
	case a.state == "broken":
		return found(ReasonArrayFailed, "it has lost a disk that it can't do without")
	case a.state == inactive:
		return found(ReasonNotStarted, "it is not started, mostly since disks are missing")
	case a.degraded > a.spare():
		return found(ReasonArrayFailed, missing)
	case a.degraded > 0:
		return found(ReasonDegraded, missing+a.progress())
	case len(a.failed) > 0:
		return found(ReasonDegraded, strings.Join(a.failed, ", ")+" has failed, and a spare has taken its place")
	}
	return nil
}

// progress tells how far a disk is filled that takes the place of one that is missing.
func (a array) progress() string {
	if a.sync != "recover" && a.sync != "reshape" {
		return ""
	}
	done, all, _ := strings.Cut(a.done, " / ")
	if n := number(all); n > 0 {
		return fmt.Sprintf(", another one is filled: %d %%", number(done)*100/n)
	}
	return ", another one waits to be filled"
}

// String names an array.
func (a array) String() string {
	return a.name + " (" + cmp.Or(a.level, "md") + ")"
}

// finding is something that is not well.
type finding = checks.Finding
