// Package mcp is the toolkit "mcp": the tools of servers that speak the Model Context Protocol, over stdio or streamable HTTP. The
// official SDK speaks the protocol. This package decides which servers are asked, bounds time and size, and cleans what a model sees.
//
// A binding of the catalog names a server of the process's configuration, or a URL. It never names a command: a document must not start
// programs. Tools are listed when a turn begins ([agent.DynamicToolkit]) and called by the handles of the list.
//
// # Sessions
//
// There is one session per server, credentials and sampling of a binding, and per tenant for URLs. It is opened on first use, once for all
// callers that wait, pinged after a pause, and closed when idle. A server that fails is not asked again for five seconds, then ten, up to a
// minute. Its state:
//
//	(none) ──need──▶ dialling ──ok──▶ open ──idle, evicted, Close──▶ (none)
//	   ▲                │              │
//	   └──backoff over──┴──◀─failed────┘ lost
//
// # Trust
//
// Servers are not trusted. Names are changed to what providers accept, descriptions are clipped and lose invisible characters, schemas are
// bounded, and hints such as readOnlyHint count only if the binding says so. A server may ask for nothing: no roots, no elicitation, and
// sampling only if the binding allows it and the process has a model for it.
//
// # When the connection breaks
//
// A call that was certainly not sent is tried again. One that may have taken effect is tried again only if it is repeatable; otherwise it
// ends as [agent.OutcomeUnknown].
//
// # Secrets
//
// The configured environment of a stdio server, and what an auth profile put into a request, is masked in everything that a server says
// before anybody sees it: results, errors, progress, logs.
package mcp
