//go:build integration

package ipmitool_test

import (
	"testing"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// BenchmarkPoll reads a server of 10 sensors with 500 records in its SEL, over LAN.
func BenchmarkPoll(b *testing.B) {
	bmc := ipmisim.Start(b)
	for i := range 500 {
		bmc.AddEvent(0x20, 0x0c, ipmisim.DIMMA1, 0x6f, [3]byte{0x00, byte(i), byte(i >> 8)})
	}
	host, port := bmc.LAN()
	s, err := ipmitool.New(ipmitool.Options{Host: host, Port: port, User: ipmisim.User, PasswordFile: bmc.PasswordFile()})
	if err != nil {
		b.Skip(err)
	}
	first, err := s.Events(b.Context(), ipmi.Cursor{})
	if err != nil {
		b.Fatal(err)
	}
	for _, call := range []struct {
		name string
		read func() error
	}{
		{"Events/unchanged", func() error { _, err := s.Events(b.Context(), first.Next); return err }},
		{"Events/all", func() error { _, err := s.Events(b.Context(), ipmi.Cursor{}); return err }},
		{"Sensors", func() error { _, err := s.Sensors(b.Context()); return err }},
		{"Chassis", func() error { _, err := s.Chassis(b.Context()); return err }},
		{"DeviceID", func() error { _, err := s.DeviceID(b.Context()); return err }},
	} {
		b.Run(call.name, func(b *testing.B) {
			for b.Loop() {
				if err := call.read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
