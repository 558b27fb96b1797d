// Package ipmitool reads a BMC through the command ipmitool, in-band or over the
// network (lanplus). It understands what ipmitool 1.8.18 and 1.8.19 write.
//
// ipmitool writes for people, which leaves some things untold:
//
//   - Sensor types from 0xc0 on, those of vendors, are all "Unknown", which is
//     SensorType 0 here.
//   - The event/reading type of a discrete sensor, or of an event with one of the
//     generic types, is taken from the words of its states. It is 0 if there are none, or
//     words that the standard does not have; then a sensor has no states.
//   - Of a threshold sensor's limits only the worst that was reached is written. Those
//     before it are taken to be reached, too, if the sensor compares its reading with them.
//   - Readings are rounded to three decimals; to two, of sensors that are both analog
//     and discrete.
//   - A sensor that the BMC fails to read looks like one without a reading; and of both the
//     unit is not written.
//   - Of sensors that share an SDR only the first is listed.
package ipmitool
