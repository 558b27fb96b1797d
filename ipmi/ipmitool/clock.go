package ipmitool

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// noTime is the time stamp of a record without one (IPMI 2.0, section 37). Up to
// preInit, time stamps are seconds since the start of a BMC whose clock nobody
// has set.
const (
	noTime  = 0xffffffff
	preInit = 0x20000000
)

var (
	// "11/21/26", and of ipmitool before 1.8.19 "11/21/2026"
	date = regexp.MustCompile(`^(\d\d)/(\d\d)/(\d\d|\d{4})$`)
	// "13:10:31 UTC", without the zone before 1.8.19
	clockTime = regexp.MustCompile(`^(\d\d):(\d\d):(\d\d)(?: (\S+))?$`)
	// "70/002": year and day of the year
	yearAndDay = regexp.MustCompile(`^(\d\d)/(\d{3})$`)
)

// parseTimestamp returns what the SEL's clock showed. It is given the two columns of a SEL
// entry: a date and a time, or "Pre-Init" and seconds.
func parseTimestamp(day, clock string) (uint32, error) {
	switch day {
	case "Pre-Init":
		seconds, err := strconv.ParseUint(clock, 10, 32)
		return uint32(seconds), err
	case "Unspecified":
		return noTime, nil
	}
	if day, ok := strings.CutPrefix(day, "S+"); ok {
		return sinceStart(strings.TrimSpace(day), clock)
	}
	match := date.FindStringSubmatch(day)
	if match == nil {
		return 0, fmt.Errorf("no date: %q", day)
	}
	seconds, err := secondOfDay(clock)
	if err != nil {
		return 0, err
	}
	year := number(match[3])
	if year < 100 {
		year += 2000
		if year > 2086 { // the first time that is not "Pre-Init" is in 1987
			year -= 100
		}
	}
	month, dayOfMonth := number(match[1]), number(match[2])
	t := time.Date(year, time.Month(month), dayOfMonth, 0, 0, seconds, 0, time.UTC)
	if int(t.Month()) != month || t.Day() != dayOfMonth || t.Unix() < 0 || t.Unix() > noTime {
		return 0, fmt.Errorf("no date: %q", day)
	}
	return uint32(t.Unix()), nil
}

// sinceStart reads a time since the start of the BMC: a time if it is less than a day,
// else a year and a day of 1970 and later.
func sinceStart(day, clock string) (uint32, error) {
	seconds, err := secondOfDay(clock)
	if err != nil || day == "" {
		return uint32(seconds), err
	}
	match := yearAndDay.FindStringSubmatch(day)
	if match == nil {
		return 0, fmt.Errorf("no days since the start of the BMC: %q", day)
	}
	t := time.Date(1900+number(match[1]), time.January, number(match[2]), 0, 0, seconds, 0, time.UTC)
	if t.Unix() < 0 || t.Unix() > preInit {
		return 0, fmt.Errorf("no days since the start of the BMC: %q", day)
	}
	return uint32(t.Unix()), nil
}

func secondOfDay(clock string) (int, error) {
	match := clockTime.FindStringSubmatch(clock)
	if match == nil {
		return 0, fmt.Errorf("no time: %q", clock)
	}
	if zone := match[4]; zone != "" && zone != "UTC" {
		return 0, errors.New("its times are not in UTC but in " + zone + ": it must be run with TZ=UTC")
	}
	hour, minute, second := number(match[1]), number(match[2]), number(match[3])
	if hour > 23 || minute > 59 || second > 60 {
		return 0, fmt.Errorf("no time: %q", clock)
	}
	return hour*3600 + minute*60 + second, nil
}

// number returns the value of at most four decimal digits.
func number(digits string) int {
	value, _ := strconv.Atoi(digits)
	return value
}

// selTime returns the time of a stamp; zero if there is none.
func selTime(stamp uint32) time.Time {
	if stamp <= preInit || stamp == noTime {
		return time.Time{}
	}
	return time.Unix(int64(stamp), 0).UTC()
}
