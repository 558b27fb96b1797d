// Package sim searches for what breaks Nodemend: the real reconcilers, the real worker of
// runners with its ledger and the real exporter of detectors live on a simulated API
// server, in virtual time, with nodes whose hosts are played. One seed decides
// everything: in which order requests arrive, what fails, what befalls nodes, and what
// people do. After each change the oracles look whether every invariant of docs/design.md
// holds.
//
// A run is a sequence of choices. 0 is always the calm one: the oldest request first,
// no fault, no event. So a run that breaks something is shrunk by setting choices to 0.
package sim
