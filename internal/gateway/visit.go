package gateway

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Door is a further way in over HTTP, mounted by the composition root: a WebSocket, another API's format, a webhook. It holds no agent
// logic and starts no turn but through [Visit.Submit].
type Door interface {
	Routes() []Route
}

// Drainer is a [Door] with connections that net/http does not know any more, such as WebSockets. Shutdown ends them behind a whole
// message; it is called once, when the gateway shuts down, and what is left when ctx ends is cut off.
type Drainer interface {
	Shutdown(ctx context.Context) error
}

// Route is one path of a door, or of the gateway itself.
type Route struct {
	Method string // GET serves HEAD too
	Path   string // as in [http.ServeMux], without a method: "/v1/chat/completions", "/v1/schedules/{name}"
	// Action is what a caller must be allowed, of any resource, before Handle is called; Handle asks for the resource with [Visit.May].
	Action agent.Action
	// Public routes need no credential: they know their callers in another way, or tell nothing. Action is empty then.
	Public bool
	Handle func(w http.ResponseWriter, r *http.Request, v *Visit) error
	// Pages, if any, are the only origins (scheme://host[:port]) whose pages may call, in place of those that the gateway allows; PageHeaders
	// is what they may send besides the headers that every page may, as in Access-Control-Allow-Headers. Of the routes of one path the
	// first that has them counts.
	Pages       []string
	PageHeaders string
	// Fail writes an error in the format of the door's own API; nil: as everywhere. It is called before anything was written.
	Fail func(w http.ResponseWriter, status int, f *agent.Failure)
}

// Visit is a request with a known caller: what a handler may do with the system behind the gateway.
type Visit struct {
	g         *Gateway
	http      *httpServer
	caller    identity
	requestID string
}

// Principal is who calls.
func (v *Visit) Principal() agent.Principal { return v.caller.principal }

// Tenant is whose data the request is about: the credential's tenant, or the one that the request names where that is allowed.
func (v *Visit) Tenant() string { return v.caller.ownTenant() }

// TenantNamed is whose tenant a request is about that may name it in its body too, as a credential of every tenant may unless the request has
// named another one elsewhere.
func (v *Visit) TenantNamed(r *http.Request, named string) (string, error) {
	own, of := v.Tenant(), v.Principal().Tenant
	switch {
	case named == "" || named == own:
		return own, nil
	case of != agent.AnyTenant:
		return "", agent.FieldErrorf(agent.CodeDenied, "tenant", "is %.140q, but the credential is of tenant %q", named, of)
	case r.Header.Get(tenantKey) != "" || r.URL.Query().Get("tenant") != "":
		return "", agent.Invalid("tenant", "is %.140q, but the request is made for tenant %q", named, own)
	case !agent.ValidName(named):
		return "", agent.Invalid("tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	return named, nil
}

// Bounded is the context of a request for as long as a call may take.
func (v *Visit) Bounded(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), v.Limits().CallTimeout)
}

// RequestID names the request across systems.
func (v *Visit) RequestID() string { return v.requestID }

// Limits bound what a request may cost.
func (v *Visit) Limits() Limits { return v.g.cfg.Limits }

// May returns a denied error unless the caller may do a to a resource.
func (v *Visit) May(a agent.Action, resource string) error { return v.caller.allow(a, resource) }

// DecodeBody reads a JSON body strictly, see [Gateway]'s REST API.
func (v *Visit) DecodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	return v.http.decodeBody(w, r, into)
}

// ReadBody reads a body of any type within the bounds of size and time, for APIs that ignore what they do not know.
func (v *Visit) ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return v.http.readBody(w, r)
}

// WriteJSON answers.
func (v *Visit) WriteJSON(w http.ResponseWriter, status int, body any) { v.http.write(w, status, body) }

// Enter takes a place among the followers and waiting requests; too many are refused instead of queued.
func (v *Visit) Enter() (leave func(), err error) { return v.g.enter() }

// WhileOpen derives a context for what may last: it also ends when the gateway shuts down, and when the caller's credential does not hold
// any more; its cause is then an error for the client. The context must be a request's.
func (v *Visit) WhileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	return v.g.whileOpen(ctx)
}

// Submit starts a turn: the caller's tenant, user, role and flags are put into the request, stream_to is refused.
func (v *Visit) Submit(ctx context.Context, door string, r *agent.TurnRequest) (agent.Receipt, error) {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	return v.g.submit(ctx, v.caller, door, r)
}

// Message submits a further message to the session of a turn.
func (v *Visit) Message(ctx context.Context, door string, id agent.TurnID, r *agent.TurnRequest) (receipt agent.Receipt, position int, err error) {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	return v.g.message(ctx, v.caller, door, id, r)
}

// Turn returns a turn as the caller may see it.
func (v *Visit) Turn(ctx context.Context, id agent.TurnID) (TurnView, error) {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	return v.g.turn(ctx, v.caller, id, agent.ActionTurnsRead)
}

// Submitted returns a turn that [Visit.Submit] gave: whoever may run an agent may see what came of his own request.
func (v *Visit) Submitted(ctx context.Context, r agent.Receipt) (TurnView, error) {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	return v.g.turn(ctx, v.caller, r.TurnID, "")
}

// Ending is how waiting for a turn came out: Output is set when the turn has ended, Pending when it waits for a person.
type Ending struct {
	Output  *agent.AgentStepOutput
	Pending []agent.Approval
	At      time.Time // when it ended
}

// Await follows a turn until it ends or meets a human pause. A ctx that ends first gives ctx's cause: the turn goes on.
func (v *Visit) Await(ctx context.Context, r agent.Receipt) (Ending, error) {
	e, err := v.g.await(ctx, v.caller, r)
	return Ending{Output: e.Output, Pending: e.Pending, At: e.at}, err
}

// Resumable checks what following a turn behind an index will find: over is true when nothing will ever come, [agent.ErrGap] when
// something is gone already. Call it with what [Visit.Turn] returned.
func (v *Visit) Resumable(t *TurnView, after int64) (over bool, err error) {
	return resumable(t, after)
}

// Follow yields the events of a turn that [Visit.Turn] or [Visit.Submit] gave.
func (v *Visit) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return v.g.cfg.Runtime.Follow(ctx, id, after)
}

// Decide answers an approval of a turn. By is the caller's where the credential says who he is.
func (v *Visit) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	_, err := v.g.decide(ctx, v.caller, id, d)
	return err
}

// Provide hands in the result of a client-side tool.
func (v *Visit) Provide(ctx context.Context, id agent.TurnID, r ProvidedResult) error {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	_, err := v.g.provide(ctx, v.caller, id, r)
	return err
}

// Cancel asks a turn to stop.
func (v *Visit) Cancel(ctx context.Context, id agent.TurnID, c agent.CancelRequest) error {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	_, err := v.g.cancel(ctx, v.caller, id, c)
	return err
}

// Agents lists the agents that the caller may run; of a credential that is confined to some a page may have fewer than was asked for.
func (v *Visit) Agents(ctx context.Context, q agent.AgentQuery) (agent.AgentPage, error) {
	ctx, cancel := v.g.bounded(ctx)
	defer cancel()
	q.Tenant = v.caller.ownTenant()
	page, err := v.g.cfg.Catalog.ListAgents(ctx, q)
	if err != nil || v.caller.principal.MayAll(agent.ActionTurnsRun) {
		return page, err
	}
	page.Agents = kept(page.Agents, func(a *agent.AgentInfo) bool { return v.caller.principal.May(agent.ActionTurnsRun, a.Name) })
	return page, nil
}

// FailureOf is what a caller may see of an error, with the HTTP status that goes with it and how long to wait before the same request
// makes sense (0: waiting does not help).
func FailureOf(err error) (f *agent.Failure, status int, retryAfter time.Duration) {
	f = failureOf(err)
	return f, mappingOf(f.Type).http, retryAfterOf(err, f)
}

// IsOver reports whether an error is only the end of waiting for a turn that goes on: the caller left, the wait was long enough, or the
// gateway closes.
func IsOver(err error) bool { return isOver(err) }
