// Package systemstats guards the system-stats monitor of node-problem-detector
// (NPD), which exports metrics of a node's CPU, disks, memory, network and so on
// and reports no conditions.
//
// NPD's monitor ends the whole process when its configuration is wrong, and when
// a file is missing that it reads at the start or later, such as /proc/modules on
// a kernel without modules. Here a wrong configuration is an error, and collectors
// whose files can't be read are left out.
package systemstats
