// Package egresstest is the suite that every tool passes that fetches for a model: whatever URL it is given, it reaches no server that is
// not public, and whatever a server answers costs a bounded time and size. Tools run it through themselves, with the real client of package
// egress, so that a tool that goes around the client, or resolves, redirects or reads by itself, fails here.
//
// The world of the suite has two servers on one port. The front listens on an address that the client's configuration allows: it stands for
// the public internet. The canary listens on 127.0.0.1, and counts connections: there must be none. A DNS server answers every name with the
// canary's address, and the names of the table as the table says.
package egresstest
