package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
)

func TestWhatAFileSystemShowsIsJudged(t *testing.T) {
	failedWith := func(errno unix.Errno) found {
		return found{err: &fs.PathError{Op: "readdir", Path: "/proc/1/root/data", Err: errno}}
	}
	roomy := found{space: share{50 << 30, 100 << 30}, inodes: share{5000, 10000}}
	damaged := ext4Errors{count: 3, last: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), in: "ext4_lookup"}
	const data = "/data (ext4 on sdb1): "
	for name, tc := range map[string]struct {
		system fileSystem
		seen   found
		w      *waiting
		want   []finding
	}{
		"all well":          {seen: roomy},
		"nothing known":     {seen: found{}},
		"read-only":         {system: fileSystem{readOnly: true}, seen: roomy, want: []finding{{Reason: ReasonReadOnly, Text: data + "the kernel lets nobody write any more"}}},
		"after errors":      {system: fileSystem{readOnly: true, errors: damaged}, seen: roomy, want: []finding{{Reason: ReasonReadOnly, Text: data + "the kernel lets nobody write any more; ext4 has counted 3 error(s), the last in ext4_lookup at 2026-01-02T03:04:05Z"}}},
		"it refuses to":     {system: fileSystem{errors: damaged}, seen: found{refuses: true}, want: []finding{{Reason: ReasonReadOnly, Text: data + "the kernel lets nobody write any more; ext4 has counted 3 error(s), the last in ext4_lookup at 2026-01-02T03:04:05Z"}}},
		"errors alone":      {system: fileSystem{errors: damaged}, seen: roomy, want: []finding{{Reason: ReasonErrors, Text: data + "ext4 has counted 3 error(s), the last in ext4_lookup at 2026-01-02T03:04:05Z: unmount it and run e2fsck, which counts anew"}}},
		"errors, no time":   {system: fileSystem{errors: ext4Errors{count: 1}}, seen: roomy, want: []finding{{Reason: ReasonErrors, Text: data + "ext4 has counted 1 error(s): unmount it and run e2fsck, which counts anew"}}},
		"shut down":         {system: fileSystem{shutdown: true, readOnly: true}, seen: failedWith(unix.EIO), want: []finding{{Reason: ReasonFailed, Text: data + "it was shut down: everything but what is in memory fails until it is mounted anew"}}},
		"an error":          {seen: failedWith(unix.EIO), want: []finding{{Reason: ReasonFailed, Text: data + "readdir: input/output error: it was shut down, or its disk is gone"}}},
		"a damaged folder":  {seen: failedWith(unix.EUCLEAN), want: []finding{{Reason: ReasonFailed, Text: data + "readdir: structure needs cleaning: it was shut down, or its disk is gone"}}},
		"unmounted by now":  {seen: failedWith(unix.ENOENT)},
		"hidden":            {seen: found{err: errHidden}},
		"no right to look":  {seen: failedWith(unix.EACCES), want: []finding{{Reason: ReasonNotSeen, Text: data + "readdir: permission denied"}}},
		"no answer yet":     {w: &waiting{time.Minute}, want: []finding{{Reason: ReasonSlow, Text: data + "has not answered for 1m0s yet"}}},
		"no answer":         {w: &waiting{2 * time.Minute}, want: []finding{{Reason: ReasonHung, Text: data + "has not answered for 2m0s"}}},
		"nearly full":       {seen: found{space: share{1 << 30, 99 << 30}}},
		"full":              {seen: found{space: share{99 << 20, 10 << 30}}, want: []finding{{Reason: ReasonFull, Text: data + "99 MiB of 10240 MiB are available"}}},
		"full, to be read":  {system: fileSystem{toBeRead: true}, seen: found{space: share{0, 10 << 30}, inodes: share{0, 10}}},
		"large, 2 GiB left": {seen: found{space: share{2 << 30, 10 << 40}}},
		"large and full":    {seen: found{space: share{1 << 20, 10 << 40}}, want: []finding{{Reason: ReasonFull, Text: data + "1 MiB of 10485760 MiB are available"}}},
		"no inodes":         {seen: found{inodes: share{9, 1000}}, want: []finding{{Reason: ReasonInodes, Text: data + "9 of 1000 inodes are available"}}},
		"many inodes":       {seen: found{inodes: share{10000, 500_000_000}}},
		"inodes on demand":  {seen: found{inodes: share{0, 0}}}, // btrfs
	} {
		t.Run(name, func(t *testing.T) {
			tc.system.kind, tc.system.disk, tc.system.points = "ext4", "sdb1", []string{"/data"}
			got := tc.system.problems(tc.seen, tc.w, Options{MaxWait: 2 * time.Minute, MinAvailable: 1})
			if fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("got  %v\nwant %v", got, tc.want)
			}
		})
	}
}

func TestWhatAWriteShowsIsJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		w    *waiting
		want finding
		out  bool
	}{
		"written":      {},
		"read-only":    {err: unix.EROFS, want: finding{Reason: ReasonReadOnly, Text: "/d: nothing can be written"}},
		"full":         {err: unix.ENOSPC, want: finding{Reason: ReasonFull, Text: "/d: a block could not be written: sync: no space left on device"}},
		"a quota":      {err: unix.EDQUOT, want: finding{Reason: ReasonFull, Text: "/d: a block could not be written: sync: disk quota exceeded"}},
		"an error":     {err: unix.EIO, want: finding{Reason: ReasonWriteFailed, Text: "/d: a block could not be written: sync: input/output error"}},
		"no right":     {err: unix.EPERM, want: finding{Reason: ReasonNotSeen, Text: "/d: sync: operation not permitted"}},
		"not there":    {err: unix.ENOENT, out: true},
		"no O_TMPFILE": {err: unix.EOPNOTSUPP, out: true},
		"slow":         {w: &waiting{time.Minute}, want: finding{Reason: ReasonSlow, Text: "/d: a block is not written for 1m0s yet"}},
		"hangs":        {w: &waiting{time.Hour}, want: finding{Reason: ReasonHung, Text: "/d: a block is not written for 1h0m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			var seen found
			if tc.err != nil {
				seen.err = errors.Join(&fs.PathError{Op: "sync", Path: "/proc/1/root/d", Err: tc.err})
			}
			got, there := writing("/d", seen, tc.w, Options{MaxWait: 2 * time.Minute})
			if got != tc.want || there == tc.out {
				t.Errorf("got %v, written there: %v; want %v", got, there, tc.want)
			}
		})
	}
}

func TestTheGravestProblemIsTheReasonAndTheMessageIsBounded(t *testing.T) {
	var many []finding
	for i := range 20 {
		many = append(many, finding{Reason: ReasonFull, Text: fmt.Sprintf("/d%d: full", i)})
	}
	for name, tc := range map[string]struct {
		findings []finding
		want     checks.Result
	}{
		"none":    {nil, checks.Healthy(ReasonHealthy, "well")},
		"doubts":  {[]finding{{Reason: ReasonSlow, Text: "a"}, {Reason: ReasonNotSeen, Text: "b"}}, checks.CannotTell(ReasonSlow, "a; b")},
		"both":    {[]finding{{Reason: ReasonSlow, Text: "a"}, {Reason: ReasonFull, Text: "b"}, {Reason: ReasonReadOnly, Text: "c"}}, checks.Problem(ReasonReadOnly, "c; b; a")},
		"so many": {many, checks.Problem(ReasonFull, "/d0: full; /d1: full; /d2: full; /d3: full; /d4: full; and 15 more")},
	} {
		if got := verdict(tc.findings, "well"); got != tc.want {
			t.Errorf("%s: got %+v\nwant %+v", name, got, tc.want)
		}
	}
	for _, reason := range grave() {
		if got := verdict([]finding{{Reason: reason, Text: "x"}}, ""); got.Status != checks.True || strings.Contains(reason, " ") {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}
