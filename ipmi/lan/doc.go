// Package lan sends commands to a BMC over LAN, in sessions of IPMI 2.0 (RMCP+, section 13):
// both sides prove that they know the password, and each message is encrypted and signed.
//
// What a BMC says here decides whether storage is taken from a machine, so only what it has
// signed in this session counts: all else that arrives, such as an answer in the clear, one
// of another session or one that was seen before, is passed over.
package lan
