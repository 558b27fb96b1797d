package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

const (
	maxEntries  = 5000 // of a log
	maxServices = 8
	maxMessage  = 200 // bytes

	oemTimestamped uint8 = 0xc0 // a type of records that is none of a sensor's
)

// eventLog is the log of a system that tells of its hardware.
type eventLog struct {
	path    string
	service logService
}

// logService is a LogService of DSP0268.
type logService struct {
	ID                 text `json:"Id"`
	Name               text `json:"Name"`
	LogEntryType       text `json:"LogEntryType"`
	ServiceEnabled     *bool
	OverWritePolicy    text `json:"OverWritePolicy"`
	MaxNumberOfRecords int  `json:"MaxNumberOfRecords"`
	Entries            link `json:"Entries"`
}

// hardwareLogs are those that tell of hardware, by the IDs that makers give them: the SEL, HPE's
// IML, Supermicro's and Lenovo's, and OpenBMC's.
var hardwareLogs = regexp.MustCompile(`(?i)^(sel|iml|log1|eventlog|platformlog|standardlog|activelog)$`)

// rank is how well a log fits; 0: not at all.
func (l logService) rank() int {
	switch {
	case l.Entries.Path == "" || l.ServiceEnabled != nil && !*l.ServiceEnabled:
		return 0
	case strings.EqualFold(string(l.LogEntryType), "SEL"):
		return 2
	case hardwareLogs.MatchString(string(l.ID)):
		return 1
	default:
		return 0
	}
}

// findLog looks for the log, at the system and then at the BMC; nil if there is none.
func (s *Source) findLog(ctx context.Context) (*eventLog, error) {
	if s.entries != nil {
		return s.entries, nil
	}
	y, err := s.system(ctx)
	if err != nil {
		return nil, err
	}
	found, err := s.logAt(ctx, y.LogServices.Path)
	if found == nil && err == nil {
		var m manager
		if m, err = s.manager(ctx, y); err == nil {
			found, err = s.logAt(ctx, m.LogServices.Path)
		}
	}
	if err == nil {
		s.entries = found
	}
	return found, err
}

// logAt returns the log among those of a collection that fits best.
func (s *Source) logAt(ctx context.Context, path string) (best *eventLog, err error) {
	if path == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	var unreadable error
	err = s.each(ctx, path, maxServices, func(r raw) error {
		var l logService
		if r.err == nil {
			r.err = json.Unmarshal(r.data, &l)
		}
		if r.err != nil {
			unreadable = r.err
			return nil //nolint:nilerr // it costs this resource only
		}
		if l.rank() > 0 && (best == nil || l.rank() > best.service.rank()) {
			best = &eventLog{l.Entries.Path, l}
		}
		return nil
	})
	if err == nil && best == nil {
		err = unreadable // it may have been the one
	}
	return best, err
}

// Events returns the entries after the cursor, oldest first. Of a service without a log there are
// none. Entries that name a part, or are of memory or processors, tell of a sensor; all others
// are only listed.
func (s *Source) Events(ctx context.Context, after ipmi.Cursor) (ipmi.EventLog, error) {
	log, err := s.findLog(ctx)
	if err != nil || log == nil {
		return ipmi.EventLog{}, err
	}
	var all []ipmi.Event
	var ids []string
	var unreadable error
	err = s.each(ctx, log.path, maxEntries, func(r raw) error {
		var e entry
		if r.err == nil {
			r.err = json.Unmarshal(r.data, &e)
		}
		if r.err != nil {
			unreadable = r.err
			return nil //nolint:nilerr // it costs this resource only
		}
		all, ids = append(all, e.event()), append(ids, string(e.ID))
		return nil
	})
	switch {
	case err != nil:
		s.entries = nil // it may have moved
		return ipmi.EventLog{}, err
	case unreadable != nil:
		return ipmi.EventLog{}, fmt.Errorf("an entry of the log: %w", unreadable)
	}
	own := order(all, ids)
	full := log.service.OverWritePolicy == "NeverOverWrites" && log.service.MaxNumberOfRecords > 0 && len(all) >= log.service.MaxNumberOfRecords
	return following(all, own, full, after), nil
}

// order puts the entries in order, the oldest first, and reports whether the service's own IDs
// are numbers that rise with the time: then these are theirs.
func order(all []ipmi.Event, ids []string) (own bool) {
	numbers := make(map[uint16]bool, len(all))
	own = true
	timed := true
	for i, id := range ids {
		n, err := strconv.ParseUint(id, 10, 16)
		own = own && err == nil && n != 0 && n != math.MaxUint16 && !numbers[uint16(n)]
		numbers[uint16(n)], all[i].ID = true, uint16(n)
		timed = timed && !all[i].Time.IsZero()
	}
	byTime := func(a, b ipmi.Event) int { return cmp.Compare(a.Timestamp, b.Timestamp) }
	if own {
		slices.SortFunc(all, func(a, b ipmi.Event) int { return cmp.Compare(a.ID, b.ID) })
		// Some count from the newest. A clock that was set takes few steps back.
		back, forth := 0, 0
		for i := 1; timed && i < len(all); i++ {
			switch order := byTime(all[i-1], all[i]); {
			case order > 0:
				back++
			case order < 0:
				forth++
			}
		}
		if back <= forth {
			return true
		}
	}
	if timed {
		slices.SortStableFunc(all, byTime)
	}
	return false
}

// following returns what comes after the cursor. People acknowledge up to an ID: where the
// service has none that rise, they are counted on from that of the cursor.
func following(all []ipmi.Event, own, full bool, after ipmi.Cursor) ipmi.EventLog {
	at := -1
	if after.Read {
		at = find(all, own, after)
	}
	if !own {
		for i := range all {
			all[i].ID = counted(int(after.ID) + i - at)
		}
	}
	log := ipmi.EventLog{Total: len(all), Full: full, Events: all[at+1:], Restarted: after.Read && at < 0}
	if n := len(all); n > 0 {
		log.Next = ipmi.Cursor{ID: all[n-1].ID, Timestamp: all[n-1].Timestamp, Read: true, Records: n}
	}
	return log
}

// find returns the place of the entry of the cursor; -1 if it is not there.
func find(all []ipmi.Event, own bool, after ipmi.Cursor) int {
	same := func(e ipmi.Event) bool { return e.Timestamp == after.Timestamp }
	if at := slices.IndexFunc(all, func(e ipmi.Event) bool { return own && e.ID == after.ID && same(e) }); at >= 0 {
		return at
	}
	if at := after.Records - 1; at >= 0 && at < len(all) && same(all[at]) {
		return at
	}
	for at := len(all) - 1; at >= 0; at-- {
		if same(all[at]) {
			return at
		}
	}
	return -1
}

// counted returns the ID of a number: 0 and 0xffff are none (IPMI 2.0, section 31.5).
func counted(n int) uint16 {
	const ids = 0xfffe
	return uint16(((n-1)%ids+ids)%ids + 1)
}

// entry is a LogEntry of DSP0268.
type entry struct {
	ID         text   `json:"Id"`
	Created    text   `json:"Created"`
	EntryCode  text   `json:"EntryCode"`
	SensorType text   `json:"SensorType"`
	Severity   text   `json:"Severity"`
	Message    text   `json:"Message"`
	MessageID  text   `json:"MessageId"`
	Resolved   bool   `json:"Resolved"`
	Links      origin `json:"Links"`
}

// origin is the resource that an entry is about.
type origin struct{ Path string }

// UnmarshalJSON takes what has no such link for none.
func (o *origin) UnmarshalJSON(data []byte) error {
	var links struct {
		OriginOfCondition link `json:"OriginOfCondition"`
	}
	if json.Unmarshal(data, &links) == nil {
		o.Path = canonical(links.OriginOfCondition.Path)
	}
	return nil
}

// cleared is what services write when somebody has emptied the log: "The SEL was cleared", "IML
// Cleared".
var cleared = regexp.MustCompile(`(?i)\b(log|sel|iml)\b[^.]{0,60}\bcleared\b`)

// Kinds of parts by what is in the path of their resources.
var kindsByPath = []struct {
	in string
	kind
}{
	{"/Memory/", kindMemory},
	{"/Processors/", kindProcessor},
	{"/Drives/", kindDrive},
	{"/PowerSupplies/", kindSupply},
	{"/Fans/", kindFan},
}

// event returns what an entry tells, without its ID. That a part was well again counts, too: by
// its severity or its code.
func (e entry) event() ipmi.Event {
	event := ipmi.Event{RecordType: oemTimestamped, Message: e.message()}
	if at, err := time.Parse(time.RFC3339, string(e.Created)); err == nil && at.Unix() > 0 && at.Unix() < math.MaxUint32 {
		event.Time, event.Timestamp = at.UTC(), uint32(at.Unix())
	} else { // so that it is known again
		sum := fnv.New32a()
		_, _ = fmt.Fprint(sum, e.ID, e.Created, e.Message) // can't fail
		event.Timestamp = sum.Sum32() % (1 << 28)
	}
	const logging, logCleared = 0x10, 2
	if cleared.MatchString(string(e.Message)) {
		event.RecordType, event.SensorType, event.EventType, event.Offset, event.Asserted = ipmi.SystemEvent, logging, ipmi.SensorSpecific, logCleared, true
		return event
	}
	critical, over := e.Severity == "Critical", e.over()
	for _, k := range kindsByPath {
		if strings.Contains(e.Links.Path, k.in) && isPath(e.Links.Path) && (critical || over) {
			event.SensorType, event.Path = k.SensorType, e.Links.Path
		}
	}
	if event.Path == "" && critical && !over {
		switch e.SensorType {
		case "Memory":
			event.SensorType = kindMemory.SensorType
		case "Processor":
			event.SensorType = kindProcessor.SensorType
		}
	}
	if event.SensorType == 0 {
		return event
	}
	const criticalState = 2 // by the generic table of severities
	event.RecordType, event.EventType, event.Offset, event.Asserted = ipmi.SystemEvent, severities, criticalState, !over
	return event
}

// over reports whether an entry says that something has ended.
func (e entry) over() bool {
	code := strings.ToLower(string(e.EntryCode))
	return e.Resolved || e.Severity == "OK" || strings.HasPrefix(code, "deassert") || code == "state deasserted" || code == "transition to ok"
}

// message returns the text for people; of one that has none, the ID of the message.
func (e entry) message() string {
	message := string(cmp.Or(e.Message, e.MessageID, "an entry without a message"))
	return strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
}
