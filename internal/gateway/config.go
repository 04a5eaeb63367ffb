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

// Config is what a gateway needs. Zero durations and counts take the defaults of [Limits].
type Config struct {
	HTTPAddr string // host:port; port 0 takes a free one; empty: no HTTP
	GRPCAddr string // likewise for gRPC

	Ports

	Metrics http.Handler // GET /metrics; nil: 404
	Doors   []Door       // further ways in over HTTP
	Logger  *zap.Logger  // nil: silent
	Version string       // shown by GET /health

	// Auth identifies callers; nil: there is no authentication, and whoever can connect may do everything.
	Auth access.Authenticator

	// Trace goes around every HTTP request, authentication included, and finds its route in the request's Pattern; nil: nothing does.
	// ServerOptions do the same for gRPC.
	Trace         func(http.Handler) http.Handler
	ServerOptions []grpc.ServerOption

	HTTPTLS *tls.Config // nil: HTTP without TLS
	GRPCTLS *tls.Config // likewise for gRPC; with certificates of clients where it asks for them

	// AllowedHosts are names besides the loopback ones that a request's Host may carry, without port; "*" allows every one.
	// AllowedOrigins are origins (scheme://host[:port]) besides those, "*" likewise. Both guard a gateway without authentication
	// against pages of foreign sites; with authentication any Host will do, and pages of these origins may call (CORS).
	AllowedHosts   []string
	AllowedOrigins []string

	Limits Limits
}

// Ports are the parts of the system that the gateway serves, one for each resource. Their errors are [agent.Error]s; the text of any other
// error is not shown to callers. All methods return soon after ctx ends.
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

	// The paths of those that are nil do not exist.
	Keys      Keys
	Audit     Audit
	Schedules Schedules
	Links     Links
	Usage     Usage
	Retention Retention
	Erasures  Erasures
	Codec     Codec

	SchedulePlans SchedulePlans // required with Schedules
	LinkChannels  []LinkChannel // whose chats can be linked
	CodecOrigins  []string      // of the Web UI, scheme://host[:port] as a browser sends them
}

// missing lists the required ports that are nil.
func (p *Ports) missing() []error {
	var faults []error
	for name, isMissing := range map[string]bool{
		"turns": p.Turns == nil, "results": p.Results == nil, "sessions": p.Sessions == nil, "finder": p.Finder == nil,
		"approvals": p.Approvals == nil,
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
	Streams      int           // followers and waiting requests, HTTP and gRPC together; default 2,000
	ReadTimeout  time.Duration // for a request's headers, and again for its body; default 30 s
	WriteTimeout time.Duration // until a client must have taken what was written; default 30 s
	IdleTimeout  time.Duration // of a kept-alive connection; default 2 min
	CallTimeout  time.Duration // of a call that does not wait for a turn; default 30 s
	WaitTimeout  time.Duration // how long POST /v1/turns waits for the end of a turn before it answers 202; default 15 min
	Heartbeat    time.Duration // between comments on an idle event stream; default 15 s
	HealthEvery  time.Duration // between answers of the gRPC health watch; default 5 s
	MessagePage  int           // most messages in one page; default 200
	StreamBuffer int           // events read ahead of a slow follower; default 64
	ResultPart   int           // bytes of one part of a gRPC result; default 256 KiB
	UploadBytes  int64         // of a file for a knowledge collection; default 64 MiB
	LongTimeout  time.Duration // of an upload with what is made of it, and of a run of the doctor; default 10 min
}

// setDefault sets a limit that is not set.
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

// validate fills in the defaults and lists every fault.
func (c *Config) validate() error {
	faults := append(c.missing(), checkLinkChannels(c.LinkChannels))
	if c.HTTPAddr == "" && c.GRPCAddr == "" {
		faults = append(faults, errors.New("neither an HTTP nor a gRPC address is given"))
	}
	for _, o := range c.AllowedOrigins {
		if _, err := parseOrigin(o); o != anything && err != nil {
			faults = append(faults, fmt.Errorf("allowed origin %q: %w", o, err))
		}
	}
	c.CodecOrigins = slices.Clone(c.CodecOrigins)
	for i, o := range c.CodecOrigins {
		if o == "" || o == "null" || strings.Contains(o, anything) {
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
