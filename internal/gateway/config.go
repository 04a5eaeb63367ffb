package gateway

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
)

// Config is the configuration of a gateway. Zero limits mean the defaults of [Limits].
type Config struct {
	HTTPAddr string // host:port; port 0 takes a free one; empty: no HTTP
	GRPCAddr string // the same for gRPC

	Ports

	Metrics http.Handler // GET /metrics; nil: 404
	Doors   []Door       // further ways in over HTTP
	Logger  *zap.Logger  // nil: silent
	Version string       // shown by GET /health

	// Auth identifies callers. If it is nil there is no authentication, and everybody who can connect may do everything.
	Auth access.Authenticator

	// Trace, if not nil, is middleware for every HTTP request, including those that are refused. It finds the route in the request's Pattern.
	// ServerOptions do the same for gRPC.
	Trace         func(http.Handler) http.Handler
	ServerOptions []grpc.ServerOption

	HTTPTLS *tls.Config // nil: HTTP without TLS
	GRPCTLS *tls.Config // nil: gRPC without TLS

	// AllowedHosts are the names, without port, that the Host header may have besides those of loopback addresses; "*" allows all. The Host
	// header is checked only without authentication, to protect the gateway from pages of foreign sites.
	// AllowedOrigins are the origins (scheme://host[:port]) whose pages may call, besides pages of this host and of loopback addresses; "*"
	// allows all.
	AllowedHosts   []string
	AllowedOrigins []string

	Limits Limits
}

// Ports are the parts of the system that the gateway serves, one for each resource. Their errors are [agent.Error]s; callers do not see the text
// of other errors. All methods return soon after ctx ends.
type Ports struct {
	// Required.
	Turns      Turns
	Results    Results
	Sessions   Sessions
	Finder     Finder
	Approvals  Approvals
	Knowledge  Knowledge
	Workflows  Workflows
	Runs       WorkflowRuns
	Composites Composites
	Agents     Agents
	Documents  Documents
	Doctor     Doctor
	Health     HealthChecker

	// Optional. Without a port there are no paths for it.
	Keys      Keys
	Audit     Audit
	Schedules Schedules
	Links     Links
	Usage     Usage
	Retention Retention
	Erasures  Erasures
	Codec     Codec

	SchedulePlans SchedulePlans // required with Schedules
	LinkChannels  []LinkChannel // the channels whose chats can be linked
	CodecOrigins  []string      // the origins of the Web UI, scheme://host[:port]
}

// missing returns an error for each required port that is nil.
func (p *Ports) missing() []error {
	var faults []error
	for name, isMissing := range map[string]bool{
		"turns": p.Turns == nil, "results": p.Results == nil, "sessions": p.Sessions == nil, "finder": p.Finder == nil, "approvals": p.Approvals == nil,
		"knowledge": p.Knowledge == nil, "workflows": p.Workflows == nil, "runs": p.Runs == nil, "composites": p.Composites == nil,
		"agents": p.Agents == nil, "documents": p.Documents == nil, "doctor": p.Doctor == nil, "health": p.Health == nil,
		"schedule plans": p.Schedules != nil && p.SchedulePlans == nil,
	} {
		if isMissing {
			faults = append(faults, fmt.Errorf("port %s is missing", name))
		}
	}
	return faults
}

// Limits bound what callers can make the gateway hold.
type Limits struct {
	BodyBytes    int64         // of a request body or gRPC message; default 8 MiB
	HeaderBytes  int           // of a request's headers; default 64 KiB
	Connections  int           // of HTTP, in all; default 4,096
	Streams      int           // followers and waiting requests, of HTTP and gRPC together; default 2,000
	ReadTimeout  time.Duration // for a request's headers, and again for its body; default 30 s
	WriteTimeout time.Duration // for a client to read what was written; default 30 s
	IdleTimeout  time.Duration // of a kept-alive connection; default 2 min
	CallTimeout  time.Duration // of a call that does not wait for a turn; default 30 s
	WaitTimeout  time.Duration // how long POST /v1/turns waits for the end of a turn before it answers 202; default 15 min
	Heartbeat    time.Duration // between comments on an idle event stream; default 15 s
	HealthEvery  time.Duration // between answers of the gRPC health watch; default 5 s
	MessagePage  int           // maximum number of messages in a page; default 200
	StreamBuffer int           // events read ahead of a slow follower; default 64
	ResultPart   int           // bytes of one part of a gRPC result; default 256 KiB
	UploadBytes  int64         // of a file for a knowledge collection; default 64 MiB
	LongTimeout  time.Duration // of an upload with its processing, and of POST /v1/doctor; default 10 min
}

// setDefault sets a limit that is not positive to its default.
func setDefault[N ~int | ~int64](v *N, d N) {
	if *v <= 0 {
		*v = d
	}
}

func (l *Limits) fill() {
	setDefault(&l.BodyBytes, 8<<20)
	setDefault(&l.HeaderBytes, 64<<10)
	setDefault(&l.Connections, 4096)
	setDefault(&l.Streams, 2000)
	setDefault(&l.ReadTimeout, 30*time.Second)
	setDefault(&l.WriteTimeout, 30*time.Second)
	setDefault(&l.IdleTimeout, 2*time.Minute)
	setDefault(&l.CallTimeout, 30*time.Second)
	setDefault(&l.WaitTimeout, 15*time.Minute)
	setDefault(&l.Heartbeat, 15*time.Second)
	setDefault(&l.HealthEvery, 5*time.Second)
	setDefault(&l.MessagePage, 200)
	setDefault(&l.StreamBuffer, 64)
	setDefault(&l.ResultPart, 256<<10)
	setDefault(&l.UploadBytes, 64<<20)
	setDefault(&l.LongTimeout, 10*time.Minute)
}

// validate sets the defaults and returns an error that lists every fault.
func (c *Config) validate() error {
	faults := append(c.missing(), checkLinkChannels(c.LinkChannels))
	if c.HTTPAddr == "" && c.GRPCAddr == "" {
		faults = append(faults, errors.New("neither an HTTP nor a gRPC address is given"))
	}
	for _, o := range c.AllowedOrigins {
		if _, err := parseOrigin(o); o != wildcard && err != nil {
			faults = append(faults, fmt.Errorf("allowed origin %q: %w", o, err))
		}
	}
	c.CodecOrigins = slices.Clone(c.CodecOrigins)
	for i, o := range c.CodecOrigins {
		if o == "" || o == "null" || strings.Contains(o, wildcard) {
			faults = append(faults, agent.Invalid("origins", "%q is the origin of no Web UI", o))
		}
		c.CodecOrigins[i] = strings.ToLower(strings.TrimSuffix(o, "/"))
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Limits.fill()
	return errors.Join(faults...)
}
