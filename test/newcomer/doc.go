// Package newcomer has the path of somebody who tries Nodemend out as a test: install,
// a first policy, a fault, uninstall, and nothing is left.
package newcomer
