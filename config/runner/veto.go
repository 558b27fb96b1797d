// Package runner is the node's own veto over what policies make its runner do:
// a file of who owns the node, which can only take away.
//
//	commands:            # by absolute path; a script counts as /bin/sh
//	  allow: [/usr/local/bin/clean-shims]   # left out: all; []: none
//	  deny: [/usr/sbin/ipmitool]            # deny wins over allow
//	units:               # patterns as systemctl takes them
//	  allow: ["containerd.service"]
//	  deny: ["etcd*.service"]
//	reboots:
//	  deny: true
//	steps:               # as nodemend policy hash prints them
//	  allow: [9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08]
//
// It compares names. A command that may be executed can do all that root can: a
// shell, /usr/bin/env or a copy gets around a denied command, systemctl around a
// denied unit or reboot. So whoever does not trust the policies allows the few
// commands or steps that he knows, instead of denying those that he fears.
package runner

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Path is where the file is on a node.
const Path = "/etc/nodemend/runner.yaml"

// Veto is what the node's file says. A nil Veto denies nothing. Its methods
// return "" or the reason, for people, why something is denied. It never changes;
// any number of goroutines may use it.
type Veto struct {
	file     string
	commands list
	units    list
	reboots  bool
	steps    []string // that alone are allowed; nil: all
}

// list is what may be used: allow is nil if the file leaves it out.
type list struct {
	allow, deny []string
}

func (l list) empty() bool { return l.allow == nil && len(l.deny) == 0 }

// Command judges a program by its absolute path. Symbolic links are followed in
// both it and the file's entries, below root, the host's root directory as the
// runner sees it ("" or "/proc/1/root"): it is denied if it leads to the same path
// as an entry of deny, and allowed only if it does as an entry of allow. A hard
// link is another path.
func (v *Veto) Command(root, program string) string {
	if v == nil || v.commands.empty() {
		return ""
	}
	leads, err := resolve(root, program)
	if err != nil {
		return fmt.Sprintf("%s can't tell whether it denies the command: %v", v.file, err)
	}
	for _, entry := range v.commands.deny {
		denied, err := resolve(root, entry)
		if err != nil {
			return fmt.Sprintf("commands.deny of %s can't tell whether it denies %s: %v", v.file, program, err)
		}
		if denied == leads {
			return fmt.Sprintf("commands.deny of %s has %s, which %s", v.file, entry, sameAs(program, entry))
		}
	}
	if v.commands.allow == nil {
		return ""
	}
	for _, entry := range v.commands.allow {
		if allowed, err := resolve(root, entry); err == nil && allowed == leads {
			return ""
		}
	}
	return fmt.Sprintf("commands.allow of %s does not have %s", v.file, leads)
}

func sameAs(program, entry string) string {
	if program == entry {
		return "is this command"
	}
	return "leads to the same file as " + program
}

// Unit judges a systemd unit by all its names, systemd's own name for it (the
// property Id) first. It is denied if any name is; it is allowed only if the
// first one is, since an alias can be given to any unit.
func (v *Veto) Unit(names ...string) string {
	if v == nil || v.units.empty() {
		return ""
	}
	if len(names) == 0 {
		return fmt.Sprintf("%s can't tell whether it denies a unit without a name", v.file)
	}
	for _, name := range names {
		if pattern, found := matching(v.units.deny, name); found {
			return fmt.Sprintf("units.deny of %s has %s, which matches %s", v.file, pattern, name)
		}
	}
	if _, found := matching(v.units.allow, names[0]); v.units.allow != nil && !found {
		return fmt.Sprintf("units.allow of %s does not have %s", v.file, names[0])
	}
	return ""
}

// Dependents judges the units that systemd stops or restarts with a unit. Only the denied
// ones count: they need not be allowed by name.
func (v *Veto) Dependents(of string, names []string) string {
	if v == nil {
		return ""
	}
	for _, name := range names {
		if pattern, found := matching(v.units.deny, name); found {
			return fmt.Sprintf("units.deny of %s has %s, which matches %s, and systemd stops or restarts that with %s", v.file, pattern, name, of)
		}
	}
	return ""
}

// Reboot judges a reboot by the remedy reboot. A command that reboots is a
// command.
func (v *Veto) Reboot() string {
	if v == nil || !v.reboots {
		return ""
	}
	return fmt.Sprintf("reboots.deny of %s is true", v.file)
}

// Step judges a step by its hash, whatever its remedy is. Another word in the policy makes
// another hash.
func (v *Veto) Step(hash string) string {
	if v == nil || v.steps == nil || slices.Contains(v.steps, hash) {
		return ""
	}
	return fmt.Sprintf("steps.allow of %s does not have the step with hash %s (nodemend policy hash FILE prints those of a policy)", v.file, hash)
}

// matching returns the first pattern that matches the name.
func matching(patterns []string, name string) (string, bool) {
	for _, pattern := range patterns {
		if matched, err := path.Match(glob(pattern), name); matched && err == nil {
			return pattern, true
		}
	}
	return "", false
}

// glob is a pattern of systemctl as one of path.Match: a backslash is part of the
// names of units (fnmatch(3) with FNM_NOESCAPE), and ! negates like ^.
func glob(pattern string) string {
	return strings.NewReplacer(`\`, `\\`, "[!", "[^").Replace(pattern)
}
