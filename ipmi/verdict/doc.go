// Package verdict says whether a server has failed, from what its BMC tells: the
// present state of the sensors, the flags of the chassis and the records of the
// System Event Log (SEL). It is pure: it reads nothing, writes nothing and has no
// clock. [Judge] takes what was read and what is remembered, and returns the verdict
// and what to remember.
//
// # What is believed
//
// The SEL tells what has happened, a sensor what is so now. Where a sensor can be
// read, its present state beats the SEL: a state that the SEL says was asserted and
// the sensor does not have is over, also if no deassertion was logged; a state that
// the sensor has is asserted, also if the SEL has nothing. Where there is no such
// sensor, as for the events of a BIOS, assertions and deassertions are paired by
// sensor (owner, LUN, type, number, event type), part and state, in the order of the
// records. Their times are not used for that: the clock of a SEL may be unset or jump. A
// BIOS has sensors of its own, whatever numbers the BMC's have. Event data name one of
// several parts of a sensor, as ipmi.Part reads them. The states of a
// generic table exclude each other, so that an assertion of one ends the
// others; a component that is reported to be removed has no other state.
//
// A state that recurs, as that of a fan which stops ten times a day, counts by the SEL although
// the sensor shows nothing: that it is over each time is what is wrong. In the entity of a
// supply it is a warning, as a feed that comes and goes does the same.
//
// A sensor without a reading confirms nothing, and ends nothing. If it has had none for ten
// minutes while others have, the SEL is believed without it: some never read. Records that
// were there when the SEL was first read are history, and not believed that way.
//
// # The first look
//
// What is failing counts from the first look on: what a sensor or a flag shows, and what was
// logged within a day before. Older records, and those without a time, are history: listed,
// not counted, until a later record says the same or the sensor shows it. So a fleet is not
// drained on the first day for errors of years ago. Without a memory each look is the
// first, which is why State has to be kept. Where it is known to be lost, as a damaged file
// tells, older records may have counted or not: then nobody can tell until they are
// acknowledged, so that the server is neither given back nor taken out.
// If the clock of the node is set forward later, by more than a day, what seemed to come from
// the future at the first look is judged anew.
//
// # Time
//
// What has to last for a while, as a missing reading, has to be seen for so long: looks that
// are at most ten minutes apart, in one boot. A reboot and a pause begin it anew, and a step
// of the clock is taken out, or begins it anew where its length is not known. A state that
// recurs has to stay away while one looks, too; that goes on after a reboot or a pause.
//
// # Latches
//
// A [Latch] says what ends a failure.
//
//   - Present: its end. It fits what has a state: a fan, a temperature, a power supply. What
//     no sensor shows ends with its deassertion, or as a momentary failure does.
//   - Momentary: an uncorrectable memory error is over as soon as it has happened, and
//     what it has proved about the module is not. Many BMCs drop the bit in the sensor at
//     the next reset, or have no sensor for it. So neither the sensor nor a
//     deassertion ends it, but only one of these: the SEL was cleared, the
//     failure was acknowledged, the server was without any power for long since, the memory
//     module was exchanged.
//   - Manual: only an acknowledgement. Neither a cleared SEL (scripts and firmware
//     updates do that, too) nor an outage releases it.
//
// A module that the firmware has found to be another one, by its serial number, was
// exchanged: what was proved of the one before is released, in another boot, if that is in no
// other slot and at least one other module is the same as before.
//
// "Without any power for long" is what separates a repair from a crash, a reset, a power
// cycle and a night of soft-off: modules, processors and cards are exchanged with
// the cords drawn. It takes two records of the SEL with a time, at least 30 minutes
// apart, and another boot ID than that of the failure: Power Unit "AC lost" or System
// ACPI Power State G3, and the next record after it, except those of the first minute,
// which a BMC logs while its power fails (IPMI 2.0, table 42-3). What came before is
// released, what came in between or in the self-test after it is not. A clock that is set
// or lost meanwhile (Timestamp Clock Sync) leaves its length unknown. Records that came
// while one and the same kernel was running are of something else.
//
// No proof of an outage are System Boot Initiated "by power up", as AMI's boards log it on
// a reset, the restart cause (section 28.11), which has no time and which BMCs keep
// over warm reboots, "Power off/down", "Power cycle", S4 and S5, which leave the standby
// power on. A server whose BMC logs nothing of an outage stays failed: acknowledge
// the failure after the repair.
//
// A SEL that has wrapped has lost the record, too, and must not release it. It was
// cleared if the record of the cursor and those just before it are gone, and it
// has a newer record "Log area reset/cleared", or another erase time and is not full. A
// SEL that has fewer records, and lacks the newest ones, without saying that anything
// was erased, is doubted, and not looked at: a BMC that restarts shows such. After
// ten minutes it is taken for all that there is, and has released nothing. All else is
// taken for a wrap. The deletion of a single record releases nothing. If it makes a source
// read the whole SEL once more, for which there is not the time, nothing is paired and
// nothing released until a known record or the end is reached. Records without a time are
// known by their other bytes, but only the last two, of more, tell a deletion from a clear.
//
// # Absent components
//
// What was present once is expected: a power supply, module, processor, drive,
// fan, card or battery that has reported its presence, or a fan or power supply with a
// reading. It is absent when the sensor says so. A sensor without any state, as many are
// after a reset of the BMC, says so if the SEL does, too, or after three minutes: unless
// those of all components are like that, or those of all supplies, processors or modules.
// A component without a reading is in doubt for as long as it has none. It returns, or an
// acknowledgement makes its absence the norm. Nothing is absent on first sight.
//
// # Power feeds
//
// A power supply without an input is a warning, whatever else is so: the server runs, and
// work on a feed takes that of many servers. While another supply is present and works, it
// explains, as warnings, that supply's own failure, the voltages, currents and fans of its
// entity, and the sensors of the supplies' redundancy. It explains no heat. An entity that
// several supplies share tells nothing. A supply that shows nothing without its input is not
// absent, unless the SEL says that it was removed. Rules of people may make anything of
// the lost input itself; it explains all the same.
//
// # Cannot tell
//
// What can't be read proves nothing, neither health nor failure. Nothing is released
// and nothing found absent while the chassis is off, the sensors can't be read or
// none is available (as while the BMC restarts). A failure that is certain all the same
// is reported: one that a readable part shows, and a latched one, which no
// reading could take back. If the BMC does not answer at all, or the chassis is off,
// the verdict is "cannot tell" and names what was known.
package verdict
