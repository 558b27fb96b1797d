//go:build integration

package ipmitool_test

import (
	"syscall"
	"testing"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/ipmi/remote"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// BenchmarkPoll reads a server of 10 sensors with 500 records in its SEL, by each way: the first
// time, and when nothing has changed since.
func BenchmarkPoll(b *testing.B) {
	sim := ipmisim.Start(b)
	for i := range 500 {
		sim.AddEvent(0x20, 0x0c, ipmisim.DIMMA1, 0x6f, [3]byte{0x00, byte(i), byte(i >> 8)})
	}
	host, port := sim.LAN()
	for _, way := range []struct {
		name string
		open func() (ipmi.Source, error)
	}{
		{"driver", func() (ipmi.Source, error) {
			return device.New("simulator", systemInterface{sim}, clock.RealClock{}), nil
		}},
		{"lan", func() (ipmi.Source, error) {
			return remote.New(remote.Options{Host: host, Port: port, User: ipmisim.Reader, PasswordFile: sim.PasswordFile()})
		}},
		{"ipmitool", func() (ipmi.Source, error) {
			return ipmitool.New(ipmitool.Options{Host: host, Port: port, User: ipmisim.User, PasswordFile: sim.PasswordFile()})
		}},
	} {
		b.Run(way.name+"/first", func(b *testing.B) {
			measure(b, func() {
				s, err := way.open()
				if err != nil {
					b.Skip(err)
				}
				if _, err := s.DeviceID(b.Context()); err != nil {
					b.Fatal(err)
				}
				poll(b, s, ipmi.Cursor{})
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(way.name+"/following", func(b *testing.B) {
			s, err := way.open()
			if err != nil {
				b.Skip(err)
			}
			next := poll(b, s, ipmi.Cursor{})
			measure(b, func() { next = poll(b, s, next) })
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// poll reads what a verdict needs.
func poll(b *testing.B, s ipmi.Source, after ipmi.Cursor) (next ipmi.Cursor) {
	b.Helper()
	log, err := s.Events(b.Context(), after)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Chassis(b.Context()); err != nil {
		b.Fatal(err)
	}
	if _, err := s.Sensors(b.Context()); err != nil {
		b.Fatal(err)
	}
	s.Rest()
	return log.Next
}

// measure reports what the programs have used, too, that were started.
func measure(b *testing.B, do func()) {
	b.Helper()
	b.ReportAllocs()
	before := children(b)
	for b.Loop() {
		do()
	}
	after := children(b)
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/1e6/float64(b.N), "children-ms/op")
	b.ReportMetric(float64(after.Maxrss)/1024, "children-MiB")
}

func children(b *testing.B) (used syscall.Rusage) {
	b.Helper()
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		b.Fatal(err)
	}
	return used
}
