// Package mcp is the toolkit "mcp": the tools of servers that speak the Model Context Protocol, over stdio or streamable HTTP. The
// protocol is the official SDK's; what is ours is whom we speak to, how long, how much, and what of it a model gets to see.
//
// A binding of the catalog names a server of the process's configuration, or a URL. It never names a command: a document must not start
// programs. Its tools are listed when a turn begins ([agent.DynamicToolkit]) and called by the handles that the list gave.
//
// # Sessions
//
// One session per binding's server, credentials and sampling, and per tenant for URLs. It is opened when first needed, by one caller for
// all who wait, asked for a sign of life after a pause, and closed when idle. A server that fails is left alone for five seconds, then ten,
// up to a minute. Its state:
//
//	(none) ──need──▶ dialling ──ok──▶ open ──idle, evicted, Close──▶ (none)
//	   ▲                │              │
//	   └──backoff over──┴──◀─failed────┘ lost
//
// # What is trusted
//
// Nothing that a server says. Names are made fit for providers, descriptions are clipped and lose invisible characters, schemas are
// bounded, hints such as readOnlyHint count only where the binding says so. The server may ask us for nothing: no roots, no elicitation, and
// sampling only where the binding allows it and the process has a model for it.
//
// # When the connection breaks
//
// A call that certainly was not sent is tried again. One that may have taken effect is not, unless it is repeatable: it ends as
// [agent.OutcomeUnknown].
//
// # Secrets
//
// What was configured as a stdio server's environment, and what an auth profile put into a request, is removed from everything that a
// server says before anybody sees it: results, errors, progress, logs.
package mcp
