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

// Call is an HTTP request with its caller: what a handler may do with the system behind the gateway.
type Call struct {
	server *httpServer
	w      http.ResponseWriter
	r      *http.Request
	caller identity
	query  *query
	status int // of the response; 200 unless the handler sets another

	ctx    context.Context // see [Call.bounded]
	cancel context.CancelFunc
}

// tenantSource is where the requests of a path name their tenant.
type tenantSource int

const (
	tenantAgreed tenantSource = iota // in the header or in the parameter, which must not differ
	tenantHeader                     // in the header; the parameter is a filter
	tenantEither                     // in the header, else in the parameter
)

func (s *httpServer) newCall(w http.ResponseWriter, r *http.Request, from tenantSource) (c *Call, err error) {
	c = &Call{server: s, w: w, r: r, query: readQuery(r), status: http.StatusOK}
	header := r.Header.Get(tenantKey)
	switch from {
	case tenantHeader:
		c.caller, err = callerIn(r.Context(), header)
	case tenantEither:
		c.caller, err = callerIn(r.Context(), cmp.Or(header, c.query.single("tenant")))
	default:
		c.caller, err = c.query.readCaller(r)
	}
	return c, err
}

// serve returns a handler that gets its request as a [Call].
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

// answer returns a handler that responds with what handle returns, as JSON; nil is a response without a body.
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

// answerPlain is answer for requests without parameters but the tenant.
func (s *httpServer) answerPlain(from tenantSource, handle func(*Call) (any, error)) handler {
	return s.answer(from, func(c *Call) (any, error) {
		if err := c.query.end(); err != nil {
			return nil, err
		}
		return handle(c)
	})
}

// bounded returns the context of the call to a port. It ends after the call timeout, which begins with the first use.
func (c *Call) bounded() context.Context {
	if c.ctx == nil {
		c.ctx, c.cancel = c.server.bounded(c.r.Context())
	}
	return c.ctx
}

// decode reads the JSON body strictly.
func (c *Call) decode(into any) error { return c.server.decodeBody(c.w, c.r, into) }

// decodeIfAny is decode for a body that may be left out, or hold white space alone, whatever its type then is.
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

// tenantNamed returns the tenant of a request that may name it in its body too. Only a credential of every tenant may do so, and only if the
// request does not name another one elsewhere.
func (c *Call) tenantNamed(named string) (string, error) {
	own, confinedTo := c.Tenant(), c.caller.principal.Tenant
	switch {
	case named == "" || named == own:
		return own, nil
	case confinedTo != agent.AnyTenant:
		return "", agent.FieldErrorf(agent.CodeDenied, "tenant", "is %.140q, but the credential is of tenant %q", named, confinedTo)
	case c.caller.tenant != "":
		return "", agent.Invalid("tenant", "is %.140q, but the request is made for tenant %q", named, own)
	case !agent.ValidName(named):
		return "", agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return named, nil
}

// audit records a change in the tenant that the request is about.
func (c *Call) audit(outcome string, a agent.Action, resource string, detail facts) {
	caller := c.caller
	caller.tenant = c.Tenant()
	caller.audit(outcome, a, resource, detail)
}

// Parameters returns the query of the request. Only the allowed parameters and the tenant may be given, each at most once.
func (c *Call) Parameters(allowed ...string) (url.Values, error) {
	for _, name := range allowed {
		c.query.single(name)
	}
	return c.query.values, c.query.end()
}

// Principal returns who calls.
func (c *Call) Principal() agent.Principal { return c.caller.principal }

// Tenant returns the tenant whose data the request is about: the credential's, or the one that the request names if that is allowed.
func (c *Call) Tenant() string { return c.caller.ownTenant() }

// RequestID names the request across systems.
func (c *Call) RequestID() string { return c.caller.requestID }

// Limits bound what a request may cost.
func (c *Call) Limits() Limits { return c.server.cfg.Limits }

// Allow returns and audits a denied error unless the caller may do a to a resource.
func (c *Call) Allow(a agent.Action, resource string) error { return c.caller.allow(a, resource) }

// DecodeBody reads the JSON body strictly: an unknown or repeated member is an error.
func (c *Call) DecodeBody(into any) error { return c.decode(into) }

// ReadBody reads a body of any type within the bounds of size and time, for APIs that ignore what they do not know.
func (c *Call) ReadBody() ([]byte, error) { return c.server.readBody(c.w, c.r) }

// WriteJSON writes a whole response.
func (c *Call) WriteJSON(status int, body any) { c.server.write(c.w, status, body) }

// Enter takes a place among the followers and waiting requests; too many are refused instead of queued.
func (c *Call) Enter() (leave func(), err error) { return c.server.enter() }

// WhileOpen derives a context for what may last. It also ends when the gateway shuts down, and when the caller's credential is no longer
// valid; its cause is then an error for the client. The context must be a request's.
func (c *Call) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	return c.server.whileOpen(ctx)
}

// Submit starts a turn. It puts the caller's tenant, user, role and flags into the request, and refuses stream_to.
func (c *Call) Submit(ctx context.Context, door string, r *agent.TurnRequest) (agent.Receipt, error) {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	return c.server.submit(ctx, c.caller, door, r)
}

// Message submits a further message to the session of a turn.
func (c *Call) Message(ctx context.Context, door string, id agent.TurnID, r *agent.TurnRequest) (receipt agent.Receipt, position int, err error) {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	return c.server.message(ctx, c.caller, door, id, r)
}

// Turn returns a turn as the caller may see it.
func (c *Call) Turn(ctx context.Context, id agent.TurnID) (TurnView, error) {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	return c.server.turn(ctx, c.caller, id, agent.ActionTurnsRead)
}

// SubmittedTurn returns a turn that [Call.Submit] gave: who may run an agent may see the result of the own request.
func (c *Call) SubmittedTurn(ctx context.Context, r agent.Receipt) (TurnView, error) {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	return c.server.turn(ctx, c.caller, r.TurnID, "")
}

// Await follows a turn until it ends or waits for a person. If ctx ends first it returns ctx's cause: the turn goes on.
func (c *Call) Await(ctx context.Context, r agent.Receipt) (Ending, error) {
	return c.server.await(ctx, c.caller, r)
}

// Follow yields the events of a turn that [Call.Turn] or [Call.Submit] gave.
func (c *Call) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return c.server.cfg.Turns.Follow(ctx, id, after)
}

// Decide answers an approval of a turn. By is the caller's if the credential has a subject.
func (c *Call) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	_, err := c.server.decide(ctx, c.caller, id, d)
	return err
}

// Provide hands in the result of a client-side tool.
func (c *Call) Provide(ctx context.Context, id agent.TurnID, r agent.ProvidedResult) error {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	_, err := c.server.provide(ctx, c.caller, id, r)
	return err
}

// Cancel asks a turn to stop.
func (c *Call) Cancel(ctx context.Context, id agent.TurnID, r agent.CancelRequest) error {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	_, err := c.server.cancel(ctx, c.caller, id, r)
	return err
}

// Agents lists the agents that the caller may run. For a credential that is confined to some agents a page may have fewer than asked for.
func (c *Call) Agents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	ctx, cancel := c.server.bounded(ctx)
	defer cancel()
	q.Tenant = c.Tenant()
	page, err := c.server.cfg.Agents.ListAgents(ctx, q)
	page.Agents = filterAllowed(c.caller, agent.ActionTurnsRun, page.Agents, func(a *agent.AgentInfo) string { return a.Name })
	return page, err
}

// FailureOf returns what a caller may see of an error, the HTTP status that goes with it, and how long to wait before the same request
// makes sense (0: waiting does not help).
func FailureOf(err error) (f *agent.Failure, status int, retryAfter time.Duration) {
	f = failureOf(err)
	return f, mappingOf(f.Type).http, retryAfterOf(err, f)
}
