package verdict_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// modules are those of a board: a locator and a serial number each, which is empty of an
// empty slot.
func modules(pairs ...string) (all []ipmi.Module) {
	for i := 0; i < len(pairs); i += 2 {
		m := ipmi.Module{Locator: pairs[i], Serial: pairs[i+1]}
		if m.Serial != "" {
			m.Bytes = 32 << 30
		}
		all = append(all, m)
	}
	return all
}

// finds is what the firmware finds from now on.
func finds(pairs ...string) func(*bmc) { return func(b *bmc) { b.in.Modules = modules(pairs...) } }

// restarted is a server that was started anew, without an outage that its SEL tells of.
func restarted(does ...func(*bmc)) func(*bmc) {
	return together(append([]func(*bmc){boots(ipmi.RestartPowerButton)}, does...)...)
}

// Another serial number in its slot proves that a module was exchanged. All else leaves it out.
func TestAnExchangedModuleIsOver(t *testing.T) {
	const (
		failing = "failed | MemoryFailure | DIMM_A1 uncorrectable ECC"
		first   = "0x1a2b3c4d"
	)
	// A parity error of channel B that does not tell the module (Intel's G90620, table 65).
	channelB := ecc(biosSMI, 2, 0x10, 0x08)
	fails := func(pairs ...string) moment { return moment{together(finds(pairs...), logs(uncorrectable())), failing} }
	was := fails("A1", first, "A2", "S-22", "B1", "S-33")
	play(t, []scenario{
		{"another serial number", "it was exchanged", []moment{
			was, {restarted(finds("A1", "S-99", "A2", "S-22", "B1", "S-33")), healthy},
			{restarted(finds("A1", "S-99", "A2", "S-22", "B1", "S-33")), healthy},
		}},
		{"the same serial number", "the cords were drawn too shortly to tell, and the module is the same", []moment{
			was, {restarted(finds("A1", first, "A2", "S-22", "B1", "S-33")), failing},
		}},
		{"another one fails at once", "it is new, and broken", []moment{
			was, {restarted(finds("A1", "S-99", "A2", "S-22", "B1", "S-33"), logs(uncorrectable())), failing},
			{restarted(finds("A1", "S-77", "A2", "S-22", "B1", "S-33")), healthy},
		}},
		{"it is in another slot now", "the broken module is still in", []moment{
			was, {restarted(finds("A1", "S-22", "A2", first, "B1", "S-33")), failing},
			{restarted(finds("A1", "S-22", "A2", "S-99", "B1", "S-33")), healthy}, // now it is out
		}},
		{"its slot is empty", "it is broken, or was taken out: a person knows", []moment{
			was, {restarted(finds("A1", "", "A2", "S-22", "B1", "S-33")), failing},
		}},
		{"all serial numbers are other ones", "an update of the firmware writes them in another way", []moment{
			was, {restarted(finds("A1", "1A2B3C4D", "A2", "0022", "B1", "0033")), failing},
		}},
		{"the firmware tells nothing any more", "nothing is known", []moment{
			was, {restarted(finds()), failing},
			{restarted(finds("A1", "S-99", "A2", "S-22", "B1", "S-33")), healthy},
		}},
		{"another serial number in the same boot", "no module changes while the kernel runs", []moment{
			was, {finds("A1", "S-99", "A2", "S-22", "B1", "S-33"), failing},
		}},
		{"a serial number that is none", "the maker of the board has left it", []moment{
			fails("A1", "00000000", "A2", "S-22"), {restarted(finds("A1", "S-99", "A2", "S-22")), failing},
		}},
		{"another module has the same", "it tells them not apart", []moment{
			fails("A1", "S-11", "A2", "S-11", "B1", "S-33"), {restarted(finds("A1", "S-99", "A2", "S-11", "B1", "S-33")), failing},
			{restarted(finds("A1", "S-99", "A2", "S-88", "B1", "S-33")), failing},
		}},
		{"it fails in this boot before the firmware's tables can be read", "it is the module of this boot, whatever was there before", []moment{
			was, {restarted(finds(), logs(uncorrectable())), failing},
			{finds("A1", "S-99", "A2", "S-22", "B1", "S-33"), failing},
		}},
		{"two slots of one name", "nobody knows which one", []moment{
			fails("A1", first, "DIMM A1", "S-22", "B1", "S-33"), {restarted(finds("A1", "S-99", "DIMM A1", "S-22", "B1", "S-33")), failing},
		}},
		{"a slot of another name", "it is another slot", []moment{
			fails("P1-DIMMA1", first, "P2-DIMMA1", "S-22", "B1", "S-33"), {restarted(finds("P1-DIMMA1", "S-99", "P2-DIMMA1", "S-22", "B1", "S-33")), failing},
		}},
		{"a module that is not the broken one", "that is another repair", []moment{
			was, {restarted(finds("A1", first, "A2", "S-22", "B1", "S-99")), failing},
		}},
		{"its sensor shows it still", "a new module does not help there", []moment{
			{together(finds("A1", first, "A2", "S-22"), shows("DIMM_A1", 1<<6|1<<1)), failing},
			{restarted(finds("A1", "S-99", "A2", "S-22")), failing},
		}},
		{"a person wants to decide", "the latch says so", []moment{
			{together(func(b *bmc) {
				b.rules = verdict.Rules{{Name: "mine", Match: verdict.Match{SensorType: "Memory", Event: "Uncorrectable ECC"}, Severity: verdict.SeverityFailure, Latch: verdict.LatchManual}}
			}, finds("A1", first, "A2", "S-22"), logs(uncorrectable())), failing},
			{restarted(finds("A1", "S-99", "A2", "S-22")), failing},
		}},
		{"a power supply beside it", "it was not exchanged", []moment{
			{
				together(finds("A1", first, "A2", "S-22"), logs(uncorrectable()), shows("PSU1 Status", 1|1<<1)),
				"failed | MultipleFailures | DIMM_A1 uncorrectable ECC | PSU1 failure detected",
			},
			{restarted(finds("A1", "S-99", "A2", "S-22")), "failed | PowerSupplyFailure | PSU1 failure detected"},
		}},
		{"one of two, which is put out of use", "the firmware shows it no more: the other one is well", []moment{
			{together(made(343, 112), finds("A1", "S-33", "B1", "S-11", "B2", "S-22", "B3", "")), healthy},
			{restarted(finds("A1", "S-33", "B1", "", "B2", "S-22", "B3", ""), logs(channelB)), "failed | MemoryFailure | one of DIMM_B1, DIMM_B2 parity"},
			{restarted(finds("A1", "S-33", "B1", "", "B2", "S-99", "B3", "")), "failed | MemoryFailure | one of DIMM_B1, DIMM_B2 parity"},
			{acknowledges, healthy + " | (one of DIMM_B1, DIMM_B2 parity)"},
		}},
		{"one of those in the log at the first look", "one may have been put out of use before", []moment{
			{together(made(343, 112), (*bmc).forget, finds("A1", "S-33", "B1", "", "B2", "S-22", "B3", ""), logs(channelB)), "failed | MemoryFailure | one of DIMM_B1, DIMM_B2, DIMM_B3 parity"},
		}},
		{"correctable errors", "they were those of the module before", []moment{
			{together(finds("A1", first, "A2", "S-22"), logs(many(10, correctable())...)), "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"},
			{restarted(finds("A1", "S-99", "A2", "S-22")), healthy},
			{logs(many(9, correctable())...), healthy},
		}},
	})
}

func many(n int, e ipmi.Event) (all []ipmi.Event) {
	for range n {
		all = append(all, e)
	}
	return all
}

func TestHistoryIsNotOfTheModuleOfToday(t *testing.T) {
	b := newBMC(t)
	b.after(-48 * time.Hour)
	b.log(uncorrectable())
	b.after(48 * time.Hour)
	b.in.Modules = modules("A1", "S-11", "A2", "S-22")
	const listed = healthy + " | [DIMM_A1 uncorrectable ECC]"
	b.expect(listed)
	b.boot(ipmi.RestartPowerButton)
	b.in.Modules = modules("A1", "S-99", "A2", "S-22")
	b.expect(listed)
}

// The firmware tells which of several modules there are.
func TestTheFirmwareTellsWhichOfSeveralModulesThereAre(t *testing.T) {
	const bios = 0x33
	supermicro := ipmi.DeviceID{Manufacturer: 10876}
	// The first module of channel A, of the second processor.
	failure := from(bios, with(ipmi.EventData{0xa1, 0x1a, 0x01}, event(memory, 0, 1)))
	for name, test := range map[string]struct {
		there []ipmi.Module
		want  string
	}{
		"it tells nothing":                   {nil, "one of P2-DIMMA1, P2-DIMMD1, P2-DIMME1"},
		"one of them":                        {modules("P1-DIMMA1", "S-11", "P2-DIMME1", "S-22"), "P2-DIMME1"},
		"one of them, and an empty slot":     {modules("P2-DIMMA1", "", "P2-DIMME1", "S-22"), "P2-DIMME1"},
		"two of them":                        {modules("P2-DIMMA1", "S-11", "P2-DIMMD1", "", "P2-DIMME1", "S-22"), "one of P2-DIMMA1, P2-DIMME1"},
		"none of them":                       {modules("P1-DIMMA1", "S-11", "DIMM 7", "S-22"), "one of P2-DIMMA1, P2-DIMMD1, P2-DIMME1"},
		"written in another way":             {modules("p2 dimm d1", "S-11"), "P2-DIMMD1"},
		"no number of the processor, thus 2": {modules("DIMMD1", "S-11", "DIMMD1", "S-22"), "one of P2-DIMMA1, P2-DIMMD1, P2-DIMME1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.in.BMC, b.in.Modules = &supermicro, test.there
			b.judge()
			b.log(failure)
			v := b.judge()
			if len(v.Failures) != 1 || v.Failures[0].Component != test.want {
				t.Fatalf("got %+v, want %s", v.Failures, test.want)
			}
			if got := v.Failures[0].Module; (got != nil) != (len(test.want) == len("P2-DIMMA1")) {
				t.Errorf("the module is %v", got)
			}
		})
	}
}

func TestAFailureNamesItsModule(t *testing.T) {
	b := newBMC(t)
	want := ipmi.Module{Locator: "A1", Serial: "S-11", Manufacturer: "Samsung", PartNumber: "M393", Bytes: 32 << 30}
	b.in.Modules = []ipmi.Module{want, {Locator: "A2"}}
	b.log(uncorrectable())
	b.sensor("PSU1 Status").States = 1 | 1<<1
	v := b.judge()
	if len(v.Failures) != 2 || v.Failures[1].Module != nil {
		t.Fatalf("got %+v", v.Failures)
	}
	if diff := cmp.Diff(&want, v.Failures[0].Module); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := v.Failures[0].Module.String(); got != "32 GiB Samsung M393, serial S-11" {
		t.Error(got)
	}
}
