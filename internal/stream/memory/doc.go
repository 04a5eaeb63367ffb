// Package memory is the event log of one process: for direct turns, tests and machines without a database. Nothing survives the
// process and no other process can follow, so a durable deployment refuses it.
//
// Everything is bounded. When room is needed, the events of the closed stream that was used longest ago expire: following it
// answers [agent.ErrGap]. When only open streams are left, a writer gets [agent.CodeOverflow]; Close always finds room.
package memory
