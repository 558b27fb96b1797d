// Package convert turns what other systems that repair nodes are configured with into
// policies and budgets: NodeHealthCheck and MachineHealthCheck with their templates,
// NodeMaintenance, the configuration of magnum-auto-healer, and the flags of kured and draino.
//
// Every line of the input is carried over, or is of no use here, or is in a Note. What the
// result does otherwise than the original is a comment in it.
package convert
