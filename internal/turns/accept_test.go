package turns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// detail returns the detail of an audit record.
func detail(t *testing.T, r *agent.AuditRecord) map[string]any {
	t.Helper()
	var d map[string]any
	require.NoError(t, json.Unmarshal(r.Detail, &d))
	return d
}

func TestAuthorisation(t *testing.T) {
	o := newInboxHarness(t)
	o.addAgent("judge", func(*agent.Plan) {})
	elsewhere := keyCaller("turns.run")
	elsewhere.Tenant = "other"
	everywhere := keyCaller("*")
	everywhere.Tenant = agent.AnyTenant
	cases := map[string]struct {
		who   agent.Principal
		agent string
		code  agent.Code
	}{
		"the runtime itself":             {agent.Principal{}, "judge", ""},
		"nothing configured":             {agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant}, "judge", ""},
		"everything":                     {keyCaller("*"), "judge", ""},
		"the agent":                      {keyCaller("turns.run:judge"), "judge", ""},
		"another agent":                  {keyCaller("turns.run:clerk"), "judge", agent.CodeDenied},
		"the agent that routing chooses": {keyCaller("turns.run:clerk"), "", ""},
		"not the one that it chooses":    {keyCaller("turns.run:judge"), "", agent.CodeDenied},
		"no scope for it":                {keyCaller(), "clerk", agent.CodeDenied},
		"of another tenant":              {elsewhere, "clerk", agent.CodeDenied},
		"of every tenant":                {everywhere, "clerk", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			places := o.places()
			r, err := o.Submit(t.Context(), agent.Envelope{
				Channel: "http", Principal: c.who, RequestID: "r-" + name, Request: helloRequest(func(r *agent.TurnRequest) { r.Agent = c.agent }),
			})
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			line, _ := o.lastAudit()
			require.Equal(t, agent.ActionTurnsRun, line.Action)
			require.Equal(t, "r-"+name, line.RequestID)
			require.Equal(t, "acme", line.Tenant)
			require.Equal(t, "http", line.Channel)
			require.Equal(t, c.who.Credential, line.Credential)
			require.Equal(t, c.who.Subject, line.Subject)
			d := detail(t, &line)
			if c.code != "" {
				require.Equal(t, agent.AuditDenied, line.Outcome)
				require.Equal(t, "denied", d["error"])
				require.NotContains(t, d, "turn_id")
				require.Equal(t, places, o.places(), "a refused request takes no place")
				return
			}
			require.Equal(t, agent.AuditAllowed, line.Outcome)
			require.Equal(t, string(r.TurnID), d["turn_id"])
			require.Equal(t, "durable", d["mode"])
			require.Equal(t, "default", d["mode_by"])
			require.Equal(t, places+1, o.places())
		})
	}
}

// TestInvalidRequests: an invalid request is neither audited nor counted against limits.
func TestInvalidRequests(t *testing.T) {
	o := newInboxHarness(t)
	for _, change := range []func(*agent.TurnRequest){
		func(r *agent.TurnRequest) { r.Message = "" },
		func(r *agent.TurnRequest) { r.Agent = "nobody" },
		func(r *agent.TurnRequest) { r.Limits = &agent.Limits{Tools: []string{"a*b"}} },
		func(r *agent.TurnRequest) { r.Context.UserID = "u\x00" },
		func(r *agent.TurnRequest) { r.Context.UserID = strings.Repeat("u", 1025) },
		func(r *agent.TurnRequest) { r.Channel = "a\nb" },
		func(r *agent.TurnRequest) { r.Channel = strings.Repeat("c", 129) },
	} {
		_, err := o.Submit(t.Context(), agent.Envelope{Principal: keyCaller("*"), Request: helloRequest(change)})
		require.Error(t, err)
	}
	_, lines := o.lastAudit()
	require.Zero(t, lines)
	require.Zero(t, o.places())
}

func TestRefusedByLimits(t *testing.T) {
	o := newInboxHarness(t)
	o.admitErr = &agent.Error{
		Code: agent.CodeRateLimited, RetryAfter: time.Minute,
		Err: agent.AdmissionRefused{Kind: agent.BoundUser, Name: "u1", Bound: agent.BoundRequestsPerMinute, Limit: 1, Used: 1},
	}
	for _, session := range []agent.SessionID{"", "s"} {
		for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
			_, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) {
				r.SessionID, r.Mode, r.TurnID = session, mode, agent.TurnID("t-"+string(mode)+string(session))
			})})
			require.ErrorIs(t, err, o.admitErr)
			_, err = o.store.Turn(t.Context(), agent.TurnID("t-"+string(mode)+string(session)))
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "nothing is recorded")
		}
	}
	require.Empty(t, o.started)
	line, lines := o.lastAudit()
	require.Equal(t, 4, lines)
	require.Equal(t, agent.AuditDenied, line.Outcome)
	require.Equal(t, "user requests_per_minute", detail(t, &line)["bound"])
}

// TestKnownTurnsNeedNoPlace: a repeated request joins its turn even if a limit has been reached meanwhile.
func TestKnownTurnsNeedNoPlace(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*agent.TurnRequest)
		begun  bool // its workflow has recorded it
	}{
		"in a session":            {func(r *agent.TurnRequest) { r.TurnID, r.SessionID = "t1", "s" }, false},
		"by key":                  {func(r *agent.TurnRequest) { r.IdempotencyKey, r.SessionID = "k", "s" }, false},
		"started a moment ago":    {func(r *agent.TurnRequest) { r.TurnID = "t1" }, false},
		"started and begun":       {func(r *agent.TurnRequest) { r.TurnID = "t1" }, true},
		"direct, and over by now": {func(r *agent.TurnRequest) { r.TurnID, r.Mode = "t1", agent.ModeDirect }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newInboxHarness(t)
			e := agent.Envelope{Channel: "http", Principal: keyCaller("*"), Request: helloRequest(c.change)}
			first := o.submit(e)
			require.False(t, first.Joined)
			if c.begun {
				req, _ := o.input(first.TurnID)
				_, err := o.acts.Begin(t.Context(), req, turns.BeginTurnInput{WorkflowID: first.TurnID.WorkflowID(), RunID: "run"})
				require.NoError(t, err)
			}
			if e.Request.Mode == agent.ModeDirect {
				o.waitForResult(first.TurnID)
			}
			o.admitErr = errors.New("full")
			again := o.submit(e)
			require.True(t, again.Joined)
			again.Joined = false
			require.Equal(t, first, again)
			require.Equal(t, 1, o.places())
			line, lines := o.lastAudit()
			require.Equal(t, 2, lines)
			require.Equal(t, true, detail(t, &line)["joined"])

			o.catalog.put(agent.Plan{Agent: "clerk"}) // has no model any more
			_, err := o.Submit(t.Context(), e)
			require.NoError(t, err, "the recorded turn is joined, although the request would now be refused")
		})
	}
}

// TestTheFirstRequestStands: a later request with the same id does not change the turn, even if its caller has more rights.
func TestTheFirstRequestStands(t *testing.T) {
	o := newInboxHarness(t)
	o.temporalErr = errors.New("no server")
	req := helloRequest(func(r *agent.TurnRequest) { r.TurnID, r.SessionID = "t1", "s" })
	first := o.submit(agent.Envelope{Principal: keyCaller("turns.run", "tools.use:look"), Request: req})
	require.True(t, first.StartUnknown, "the turn is recorded and not started")
	o.temporalErr = nil
	r := o.submit(agent.Envelope{Principal: keyCaller("*"), Request: req})
	require.Equal(t, agent.SessionID("s"), r.SessionID)
	input, ok := o.input("t1")
	require.True(t, ok)
	require.Equal(t, agent.TurnRequest{TurnID: "t1", SessionID: "s", Context: agent.InvocationContext{Tenant: "acme"}}, input)
	_, err := o.acts.Begin(t.Context(), input, turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "run"})
	require.NoError(t, err)
	_, err = o.acts.CallModel(t.Context(), turns.CallModelInput{TurnID: "t1", Step: 1})
	require.NoError(t, err)
	out, err := o.acts.Finish(t.Context(), turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	require.Equal(t, "tools: look", out.Output)
}

func TestToolsOfTheCredential(t *testing.T) {
	cases := map[string]struct {
		who  agent.Principal
		asks []string
		want string
	}{
		"the runtime itself": {agent.Principal{}, nil, "tools: look pay"},
		"not confined":       {keyCaller("turns.run", "tools.use"), nil, "tools: look pay"},
		"a request's own":    {agent.Principal{}, []string{"pay"}, "tools: pay"},
		"confined":           {keyCaller("turns.run", "tools.use:lo*"), nil, "tools: look"},
		"both":               {keyCaller("turns.run", "tools.use:lo*"), []string{"pay", "look"}, "tools: look"},
		"it cannot raise":    {keyCaller("turns.run", "tools.use:lo*"), []string{"*"}, "tools: look"},
		"none":               {keyCaller("turns.run"), nil, "tools:"},
	}
	for name, c := range cases {
		for _, mode := range []agent.Mode{agent.ModeDirect, agent.ModeDurable} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				o := newInboxHarness(t)
				r, err := o.Submit(t.Context(), agent.Envelope{Principal: c.who, Request: helloRequest(func(r *agent.TurnRequest) {
					r.Mode = mode
					if c.asks != nil {
						r.Limits = &agent.Limits{Tools: c.asks, ModelCalls: 7}
					}
				})})
				require.NoError(t, err)
				if mode == agent.ModeDurable {
					input, _ := o.input(r.TurnID)
					begun, err := o.acts.Begin(t.Context(), input, turns.BeginTurnInput{WorkflowID: r.TurnID.WorkflowID(), RunID: "run"})
					require.NoError(t, err)
					require.Nil(t, begun.Limits.Tools, "the workflow does not get the tools")
					_, err = o.acts.CallModel(t.Context(), turns.CallModelInput{TurnID: r.TurnID, Step: 1})
					require.NoError(t, err)
					_, err = o.acts.Finish(t.Context(), turns.StoreTurnInput{TurnID: r.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
					require.NoError(t, err)
				}
				require.Equal(t, c.want, o.waitForResult(r.TurnID).Output)
			})
		}
	}
}

func TestDirectOrDurable(t *testing.T) {
	o := newInboxHarness(t, func(_ *inboxHarness, c *turns.InboxConfig) { c.DirectChannels = []string{"chat"} })
	o.addAgent("quick", func(p *agent.Plan) { p.Mode = agent.ModeDirect })
	o.addAgent("slow", func(p *agent.Plan) { p.Mode = agent.ModeDurable })
	cases := map[string]struct {
		request        agent.Mode
		agent, channel string
		want           agent.Mode
		by             string
	}{
		"as ever":                       {"", "clerk", "http", agent.ModeDurable, "default"},
		"by request":                    {agent.ModeDirect, "clerk", "http", agent.ModeDirect, "request"},
		"the request before the agent":  {agent.ModeDurable, "quick", "http", agent.ModeDurable, "request"},
		"by agent":                      {"", "quick", "http", agent.ModeDirect, "agent"},
		"the agent before the channel":  {"", "slow", "chat", agent.ModeDurable, "agent"},
		"by channel":                    {"", "clerk", "chat", agent.ModeDirect, "channel"},
		"the request before all others": {agent.ModeDirect, "slow", "http", agent.ModeDirect, "request"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := o.submit(agent.Envelope{Channel: c.channel, Request: helloRequest(func(r *agent.TurnRequest) { r.Agent, r.Mode = c.agent, c.request })})
			line, _ := o.lastAudit()
			d := detail(t, &line)
			require.Equal(t, string(c.want), d["mode"])
			require.Equal(t, c.by, d["mode_by"])
			_, started := o.input(r.TurnID)
			require.Equal(t, c.want == agent.ModeDurable, started)
			if c.want == agent.ModeDirect {
				o.waitForResult(r.TurnID)
				turn := o.turn(r.TurnID)
				require.Equal(t, agent.ModeDirect, turn.Record.Mode)
			}
		})
	}

	// A direct turn that has to wait for its session waits as a workflow, and without a driver there are no direct turns.
	o.submit(agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.SessionID = "busy" })})
	waiting := o.submit(agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.SessionID, r.Mode = "busy", agent.ModeDirect })})
	require.Equal(t, agent.FallbackSession, o.fallback(waiting.TurnID))
	line, _ := o.lastAudit()
	require.Equal(t, "durable", detail(t, &line)["mode"])
	require.Equal(t, "fallback", detail(t, &line)["mode_by"])
	alone := newInboxHarness(t, func(_ *inboxHarness, c *turns.InboxConfig) { c.Driver = nil })
	r, err := alone.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.Mode = agent.ModeDirect })})
	require.NoError(t, err)
	_, started := alone.input(r.TurnID)
	require.True(t, started)
	line, _ = alone.lastAudit()
	require.Equal(t, "fallback", detail(t, &line)["mode_by"])
	require.Equal(t, agent.FallbackWorker, alone.fallback(r.TurnID))
	begun, err := alone.acts.Begin(t.Context(), agent.TurnRequest{TurnID: r.TurnID, Context: agent.InvocationContext{Tenant: "acme"}},
		turns.BeginTurnInput{WorkflowID: r.TurnID.WorkflowID(), RunID: "run"})
	require.NoError(t, err)
	require.Equal(t, turns.VerdictReady, begun.Verdict)
	for e, err := range alone.log.Follow(t.Context(), string(r.TurnID), 0) {
		require.NoError(t, err)
		require.Equal(t, agent.StatusRunning, e.Status)
		require.Equal(t, agent.FallbackWorker.Reason(), e.Reason, "the first event has the reason")
		break
	}
}

// fallback returns the recorded reason why a turn is not direct.
func (o *inboxHarness) fallback(id agent.TurnID) agent.Fallback {
	o.t.Helper()
	turn := o.turn(id)
	require.Equal(o.t, agent.ModeDurable, turn.Record.Mode)
	return turn.Record.Fallback
}

// TestJoinOnlyTheSameRequest: an id or an idempotency key joins only the turn of the same request.
func TestJoinOnlyTheSameRequest(t *testing.T) {
	o := newInboxHarness(t)
	o.addAgent("judge", func(*agent.Plan) {})
	key := func(change func(*agent.TurnRequest)) agent.Envelope {
		r := helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey, r.SessionID = "k", "s" })
		r.Limits, r.OutputSchema = &agent.Limits{ToolCalls: 5}, json.RawMessage(`{"type":"object","properties":{"n":{"maximum":1}}}`)
		if change != nil {
			change(&r)
		}
		return agent.Envelope{Principal: keyCaller("*"), Request: r}
	}
	first := o.submit(key(nil))
	reordered := json.RawMessage(`{"properties": {"n": {"maximum": 1.0}}, "type": "object"}`)
	confined := key(nil)
	confined.Principal = keyCaller("turns.run:judge")
	confined.Request.Agent = "judge"
	byID := confined
	byID.Request.TurnID, byID.Request.IdempotencyKey = first.TurnID, ""
	cases := map[string]struct {
		e     agent.Envelope
		code  agent.Code
		field string
	}{
		"the same":                  {key(nil), "", ""},
		"the same, agent named":     {key(func(r *agent.TurnRequest) { r.Agent = "clerk" }), "", ""},
		"as a list":                 {key(func(r *agent.TurnRequest) { r.Message, r.Messages = "", []agent.Message{agent.UserText("hello")} }), "", ""},
		"other words":               {key(func(r *agent.TurnRequest) { r.Message = "bye" }), agent.CodeConflict, "idempotency_key"},
		"another agent":             {key(func(r *agent.TurnRequest) { r.Agent = "judge" }), agent.CodeConflict, "idempotency_key"},
		"another model":             {key(func(r *agent.TurnRequest) { r.Model = "p" }), agent.CodeConflict, "idempotency_key"},
		"another user":              {key(func(r *agent.TurnRequest) { r.Context.UserID = "u2" }), agent.CodeConflict, "idempotency_key"},
		"another session":           {key(func(r *agent.TurnRequest) { r.SessionID = "s2" }), agent.CodeConflict, "idempotency_key"},
		"other limits":              {key(func(r *agent.TurnRequest) { r.Limits = &agent.Limits{ToolCalls: 6} }), agent.CodeConflict, "idempotency_key"},
		"no limits, said":           {key(func(r *agent.TurnRequest) { r.Limits = &agent.Limits{} }), agent.CodeConflict, "idempotency_key"},
		"without limits":            {key(func(r *agent.TurnRequest) { r.Limits = nil }), "", ""},
		"another schema":            {key(func(r *agent.TurnRequest) { r.OutputSchema = json.RawMessage(`{"type":"object"}`) }), agent.CodeConflict, "idempotency_key"},
		"the schema in other bytes": {key(func(r *agent.TurnRequest) { r.OutputSchema = reordered }), "", ""},
		"without a schema":          {key(func(r *agent.TurnRequest) { r.OutputSchema = nil }), "", ""},
		"without its session":       {key(func(r *agent.TurnRequest) { r.SessionID = "" }), "", ""},
		"who may not ask its agent": {confined, agent.CodeConflict, "idempotency_key"},
		"by id, likewise":           {byID, agent.CodeConflict, "turn_id"},
		"by id, other words": {
			key(func(r *agent.TurnRequest) { r.IdempotencyKey, r.TurnID, r.Message = "", first.TurnID, "bye" }), "", "",
		},
		"by id, another session": {
			key(func(r *agent.TurnRequest) { r.IdempotencyKey, r.TurnID, r.SessionID = "", first.TurnID, "s2" }), agent.CodeConflict, "turn_id",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			again, err := o.Submit(t.Context(), c.e)
			require.Equal(t, c.code, agent.CodeOf(err), "%v", err)
			if err != nil {
				require.Equal(t, c.field, agent.FailureOf(err).Field)
				return
			}
			require.True(t, again.Joined)
			require.Equal(t, first.TurnID, again.TurnID)
		})
	}
	require.Equal(t, 1, o.places())
}

// TestIDsOfKeysAreNotTaken: a caller cannot occupy the turn id of another tenant's idempotency key.
func TestIDsOfKeysAreNotTaken(t *testing.T) {
	o := newInboxHarness(t)
	r := helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey = "order-1" })
	id := turns.TurnIDOf(&r, "")
	byID := helloRequest(func(r *agent.TurnRequest) { r.TurnID = id })
	thief := keyCaller("*")
	thief.Tenant, byID.Context.Tenant = "other", "other"
	_, err := o.Submit(t.Context(), agent.Envelope{Principal: thief, Request: byID})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%v", err)
	require.Equal(t, "turn_id", agent.FailureOf(err).Field)

	first := o.submit(agent.Envelope{Principal: keyCaller("*"), Request: r})
	require.Equal(t, id, first.TurnID)
	byID.Context.Tenant = "acme"
	again := o.submit(agent.Envelope{Principal: keyCaller("*"), Request: byID})
	require.True(t, again.Joined, "a request of the same tenant joins it")
	byID.TurnID = agent.TurnID(uuid.NewSHA1(uuid.NameSpaceURL, []byte("x")).String())
	_, err = o.Submit(t.Context(), agent.Envelope{Request: byID})
	require.NoError(t, err, "the caller may act for any tenant")
	byID.TurnID = agent.TurnID(uuid.NewString())
	_, err = o.Submit(t.Context(), agent.Envelope{Principal: keyCaller("*"), Request: byID})
	require.NoError(t, err, "an id of another form")
}

// TestMessages: a message to a running turn is submitted like any request.
func TestMessages(t *testing.T) {
	o := newInboxHarness(t)
	o.addAgent("judge", func(*agent.Plan) {})
	first := o.submit(agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) { r.Agent = "judge" })})
	input, _ := o.input(first.TurnID)
	_, err := o.acts.Begin(t.Context(), input, turns.BeginTurnInput{WorkflowID: first.TurnID.WorkflowID(), RunID: "run"})
	require.NoError(t, err)
	e := agent.Envelope{Channel: "ws", Principal: keyCaller("turns.run:clerk"), RequestID: "r1", Request: agent.TurnRequest{Message: "and?"}}
	_, _, err = o.MessageFrom(t.Context(), first.TurnID, e)
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "the agent is that of the turn")
	e.Principal = keyCaller("turns.run:judge")
	r, position, err := o.MessageFrom(t.Context(), first.TurnID, e)
	require.NoError(t, err)
	require.Equal(t, first.SessionID, r.SessionID)
	require.Equal(t, 1, position)
	require.Equal(t, 2, o.places())
	line, _ := o.lastAudit()
	require.Equal(t, "agent/judge", line.Resource)
	require.Equal(t, "ws", line.Channel)
	t2 := o.turn(r.TurnID)
	require.Equal(t, []string{}, t2.Record.Limits.Tools, "the limits of the credential apply")
	o.admitErr = agent.Errorf(agent.CodeRateLimited, "", "full")
	_, _, err = o.MessageFrom(t.Context(), first.TurnID, e)
	require.ErrorIs(t, err, o.admitErr)
}

// TestRefusedTurnsGivePlacesBack: a turn that certainly does not begin gives its place back.
func TestRefusedTurnsGivePlacesBack(t *testing.T) {
	o := newInboxHarness(t)
	submit := func(change func(*agent.TurnRequest)) error {
		_, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(change)})
		return err
	}
	require.NoError(t, submit(func(r *agent.TurnRequest) { r.SessionID = "s" }))
	for i, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
		err := submit(func(r *agent.TurnRequest) { r.SessionID, r.OnBusy, r.Mode = "s", agent.OnBusyReject, mode })
		require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
		require.Len(t, o.returned, i+1)
		require.Equal(t, o.admitted[i+1], o.returned[i])
	}
	o.temporalErr = agent.Errorf(agent.CodeUnavailable, "", "away")
	require.NoError(t, submit(nil))
	require.Len(t, o.returned, 2, "the turn is recorded and will be started")
}

// bounded returns an inbox change that enforces limits on concurrent turns with the real store.
func bounded(t *testing.T, atOnce int) func(*inboxHarness, *turns.InboxConfig) {
	t.Helper()
	return func(o *inboxHarness, c *turns.InboxConfig) {
		g, err := admission.New(admission.Config{
			Store: o.store, Defaults: admission.Bounds{Tenant: agent.Bound{ConcurrentTurns: atOnce}},
			End: func(ctx context.Context, id agent.TurnID) (bool, error) { return o.acts.EndOrphan(ctx, id) },
		})
		require.NoError(t, err)
		c.Admission = g
	}
}

// TestConcurrentRequestsStayWithinTheBound: of any number of concurrent requests, no more turns begin than the limit allows.
func TestConcurrentRequestsStayWithinTheBound(t *testing.T) {
	const bound = 5
	o := newInboxHarness(t, bounded(t, bound))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var in []agent.TurnID
	for i := range 40 {
		wg.Go(func() {
			r, err := o.Submit(t.Context(), agent.Envelope{Request: helloRequest(func(r *agent.TurnRequest) {
				r.TurnID = agent.TurnID(fmt.Sprint("t", i/2)) // each twice
				r.SessionID = agent.SessionID(fmt.Sprint("s", i/2))
			})})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && !r.Joined:
				in = append(in, r.TurnID)
			case err != nil && agent.CodeOf(err) != agent.CodeRateLimited:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Len(t, in, bound)
	another := agent.Envelope{Request: helloRequest(nil)}
	_, err := o.Submit(t.Context(), another)
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
	require.ErrorAs(t, err, new(agent.AdmissionRefused))
	_, err = o.acts.Finish(t.Context(), turns.StoreTurnInput{TurnID: in[0], Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	_, err = o.Submit(t.Context(), another)
	require.NoError(t, err, "a turn that ends gives its place back")
}
