package gateway

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Call is an HTTP request with its caller. A [Door] reaches the system behind the gateway through its methods.
type Call struct {
	server *httpServer
	w      http.ResponseWriter
	r      *http.Request
	caller identity
	query  *query
	status int // of the response; 200 unless the handler sets another

	ctx    context.Context // see callContext
	cancel context.CancelFunc
}

// tenantSource is where the requests of a path name their tenant.
type tenantSource int

const (
	tenantUnambiguous tenantSource = iota // in the header or in the parameter "tenant", which must not differ
	tenantHeaderOnly                      // in the header; the parameter is a filter
	tenantHeaderFirst                     // in the header, else in the parameter
)

func (s *httpServer) newCall(w http.ResponseWriter, r *http.Request, from tenantSource) (c *Call, err error) {
	c = &Call{server: s, w: w, r: r, query: readQuery(r), status: http.StatusOK}
	tenant := r.Header.Get(tenantKey)
	switch from {
	case tenantHeaderOnly:
	case tenantHeaderFirst:
		tenant = cmp.Or(tenant, c.query.single("tenant"))
	case tenantUnambiguous:
		parameter := c.query.text("tenant", maxText)
		if parameter != "" && tenant != "" && parameter != tenant {
			return c, agent.Invalid("tenant", "is %.140q, but the header %s says %.140q", parameter, tenantKey, tenant)
		}
		tenant = cmp.Or(tenant, parameter)
	}
	c.caller, err = callerOf(r.Context()).inTenant(tenant)
	return c, err
}

// serve returns a handler that calls handle with the request as a [Call].
func (s *httpServer) serve(from tenantSource, handle func(*Call) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := s.newCall(w, r, from)
		if err != nil {
			return err
		}
		defer func() {
			if c.cancel != nil {
				c.cancel()
			}
		}()
		return handle(c)
	}
}

// answer returns a handler that responds with the JSON of the value that handle returns, or without a body for nil.
func (s *httpServer) answer(from tenantSource, handle func(*Call) (any, error)) handler {
	return s.serve(from, func(c *Call) error {
		body, err := handle(c)
		switch {
		case err != nil:
			return err
		case body == nil:
			c.w.WriteHeader(c.status)
		default:
			s.write(c.w, c.status, body)
		}
		return nil
	})
}

// answerWithoutQuery is answer for requests that take no parameter but the tenant.
func (s *httpServer) answerWithoutQuery(from tenantSource, handle func(*Call) (any, error)) handler {
	return s.answer(from, func(c *Call) (any, error) {
		if err := c.query.validate(); err != nil {
			return nil, err
		}
		return handle(c)
	})
}

// answerQuery returns a handler that reads a query from the parameters of the request, and responds with the JSON of the page that find returns.
func answerQuery[Q, P any](
	s *httpServer, from tenantSource, read func(*query) Q, find func(ctx context.Context, caller identity, q Q) (P, error),
) handler {
	return s.answer(from, func(c *Call) (any, error) {
		q := read(c.query)
		if err := c.query.validate(); err != nil {
			return nil, err
		}
		return find(c.callContext(), c.caller, q)
	})
}

// callContext returns the context for calls of ports. It ends after the call timeout, which begins with the first use.
func (c *Call) callContext() context.Context {
	if c.ctx == nil {
		c.ctx, c.cancel = c.server.callContext(c.r.Context())
	}
	return c.ctx
}

// decode reads the JSON body strictly.
func (c *Call) decode(into any) error { return c.server.decodeBody(c.w, c.r, into) }

// decodeIfAny is decode for an optional body. An absent or blank body may have any content type.
func (c *Call) decodeIfAny(into any) error {
	data, err := c.server.readBody(c.w, c.r)
	if err != nil || len(bytes.TrimSpace(data)) == 0 {
		return err
	}
	if err := CheckContentType(c.r); err != nil {
		return err
	}
	return decodeJSON(data, into)
}

// tenantOfBody returns the tenant of a request whose body may name one. The body may name a tenant other than c.Tenant only if the credential is
// of every tenant and neither the header nor the parameter names one.
func (c *Call) tenantOfBody(named string) (string, error) {
	switch {
	case named == "" || named == c.Tenant():
		return c.Tenant(), nil
	case c.caller.isOfOneTenant():
		return "", agent.FieldErrorf(agent.CodeDenied, "tenant", "is %.140q, but the credential is of tenant %q", named, c.caller.principal.Tenant)
	case c.caller.tenant != "":
		return "", agent.Invalid("tenant", "is %.140q, but the request is made for tenant %q", named, c.Tenant())
	case !agent.ValidName(named):
		return "", agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return named, nil
}

// audit records a change in the tenant of the request.
func (c *Call) audit(outcome string, a agent.Action, resource string, detail facts) {
	caller := c.caller
	caller.tenant = c.Tenant()
	caller.audit(outcome, a, resource, detail)
}

// Parameters returns the query of the request. It may hold only the allowed parameters and the tenant, each at most once.
func (c *Call) Parameters(allowed ...string) (url.Values, error) {
	for _, name := range allowed {
		c.query.single(name)
	}
	return c.query.values, c.query.validate()
}

// Principal returns the principal of the caller.
func (c *Call) Principal() agent.Principal { return c.caller.principal }

// Tenant returns the tenant of the request: the credential's, or the one that a caller of every tenant names.
func (c *Call) Tenant() string { return c.caller.ownTenant() }

// RequestID names the request across systems.
func (c *Call) RequestID() string { return c.caller.requestID }

// Limits returns the limits of the gateway.
func (c *Call) Limits() Limits { return c.server.cfg.Limits }

// Allow returns nil if the caller may do a to a resource. Otherwise it audits the denial and returns it as an error.
func (c *Call) Allow(a agent.Action, resource string) error { return c.caller.allow(a, resource) }

// DecodeBody reads the JSON body strictly: an unknown or repeated member is an error.
func (c *Call) DecodeBody(into any) error { return c.decode(into) }

// ReadBody reads a body of any type, bounded in size and time.
func (c *Call) ReadBody() ([]byte, error) { return c.server.readBody(c.w, c.r) }

// WriteJSON writes a complete response.
func (c *Call) WriteJSON(status int, body any) { c.server.write(c.w, status, body) }

// Enter takes one of the places for followers and waiting requests, or returns an error if all are taken. leave gives it back.
func (c *Call) Enter() (leave func(), err error) { return c.server.enter() }

// StreamContext returns a context for a stream or a long wait, from the context of a request. It ends also when the gateway shuts down or the
// caller's credential is no longer valid; its cause is then the error for the client.
func (c *Call) StreamContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return c.server.streamContext(ctx)
}

// Submit starts a turn. It puts the caller's tenant, user, role and flags into the request, and refuses stream_to.
func (c *Call) Submit(ctx context.Context, door string, r *agent.TurnRequest) (agent.Receipt, error) {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	return c.server.submit(ctx, c.caller, door, r)
}

// Message submits a further message to the session of a turn.
func (c *Call) Message(ctx context.Context, door string, id agent.TurnID, r *agent.TurnRequest) (receipt agent.Receipt, position int, err error) {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	return c.server.message(ctx, c.caller, door, id, r)
}

// Turn returns a turn as the caller may see it.
func (c *Call) Turn(ctx context.Context, id agent.TurnID) (TurnView, error) {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	return c.server.turn(ctx, c.caller, id, agent.ActionTurnsRead)
}

// SubmittedTurn returns a turn that the caller has submitted by [Call.Submit]. The caller need not be allowed to read turns.
func (c *Call) SubmittedTurn(ctx context.Context, r agent.Receipt) (TurnView, error) {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	return c.server.turn(ctx, c.caller, r.TurnID, "")
}

// Await follows a turn until it ends or waits for a person. If ctx ends first it returns ctx's cause, and the turn goes on.
func (c *Call) Await(ctx context.Context, r agent.Receipt) (Ending, error) {
	return c.server.await(ctx, c.caller, r)
}

// Follow yields the events of a turn that [Call.Turn] or [Call.Submit] has returned.
func (c *Call) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return c.server.cfg.Turns.Follow(ctx, id, after)
}

// Decide decides on an approval of a turn.
func (c *Call) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	_, err := c.server.decide(ctx, c.caller, id, d)
	return err
}

// Provide provides the result of a client-side tool.
func (c *Call) Provide(ctx context.Context, id agent.TurnID, r agent.ProvidedResult) error {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	_, err := c.server.provide(ctx, c.caller, id, r)
	return err
}

// Cancel asks a turn to stop.
func (c *Call) Cancel(ctx context.Context, id agent.TurnID, r agent.CancelRequest) error {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	_, err := c.server.cancel(ctx, c.caller, id, r)
	return err
}

// Agents lists the agents that the caller may run. For a caller who may run some agents only, a page may have fewer entries than its size.
func (c *Call) Agents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	ctx, cancel := c.server.callContext(ctx)
	defer cancel()
	q.Tenant = c.Tenant()
	page, err := c.server.cfg.Agents.ListAgents(ctx, q)
	page.Agents = filterAllowed(c.caller, agent.ActionTurnsRun, page.Agents, func(a *agent.AgentInfo) string { return a.Name })
	return page, err
}

// FailureOf returns an error as callers see it, with its HTTP status and the time after which to repeat the request (0: repeating does not help).
func FailureOf(err error) (f *agent.Failure, status int, retryAfter time.Duration) {
	f = failureOf(err)
	return f, mappingOf(f.Type).http, retryAfterOf(err, f)
}
