package postgres_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func approval(id string) agent.Approval {
	return agent.Approval{
		ApprovalID: id, TurnID: "t1", CallID: "c1", Step: 1, ToolName: "send", Args: json.RawMessage(`{"to": "x"}`), Rule: "policy",
		Description: "Send a mail?", ArgsHash: "hash-x",
	}
}

// expiring returns an approval that expires after d.
func expiring(id string, d time.Duration, outcome agent.Expiry) agent.Approval {
	a := approval(id)
	at := time.Now().Add(d).UTC().Truncate(time.Microsecond)
	a.ExpiresAt, a.OnExpiry = &at, outcome
	return a
}

func (b *bench) ask(approvals ...agent.Approval) {
	b.t.Helper()
	for _, a := range approvals {
		require.NoError(b.t, b.SaveApproval(b.t.Context(), tenant, a))
	}
}

// requireApproval compares approvals except for the times that the database sets.
func requireApproval(t testing.TB, want, got agent.Approval) {
	t.Helper()
	require.NotNil(t, got.CreatedAt)
	require.Equal(t, got.Decision != "", got.DecidedAt != nil)
	got.CreatedAt, got.DecidedAt = nil, nil
	want.Tenant, want.SessionID, want.Agent = tenant, "s", "analyst"
	requireSame(t, want, got)
	require.Equal(t, want.ArgsHash, got.ArgsHash)
}

func TestApprovals(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	shown := expiring("a1", time.Hour, agent.ExpiryEnd)
	shown.Allowed, shown.Remember = []agent.DecisionKind{agent.DecisionEdit, agent.DecisionReject}, agent.RememberTool
	b.ask(shown)
	changed := expiring("a1", time.Minute, agent.ExpiryApprove)
	changed.Description = "Something else?"
	b.ask(changed, approval("a2"))
	open, err := b.Approvals(t.Context(), "t1")
	require.NoError(t, err)
	require.Len(t, open, 2)
	requireApproval(t, shown, open[0])
	requireApproval(t, approval("a2"), open[1])

	edit := agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"to": "y"}`), By: "ops", Message: "safer"}
	want := shown
	want.DecidedArgs, want.Decision, want.By, want.Message = edit.Args, edit.Decision, edit.By, edit.Message
	for range 2 {
		got, err := b.ResolveApproval(t.Context(), "t1", edit)
		require.NoError(t, err)
		requireApproval(t, want, got)
	}
	tests := map[string]struct {
		change func(*agent.Decision)
		want   agent.Code
	}{
		"another decision": {func(d *agent.Decision) { d.Decision = agent.DecisionReject }, agent.CodeConflict},
		"other arguments":  {func(d *agent.Decision) { d.Args = json.RawMessage(`{"to":"z"}`) }, agent.CodeConflict},
		"another person":   {func(d *agent.Decision) { d.By = "dev" }, agent.CodeConflict},
		"remembered":       {func(d *agent.Decision) { d.Remember = true }, agent.CodeConflict},
		"unknown":          {func(d *agent.Decision) { d.ApprovalID = "a9" }, agent.CodeNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := edit
			test.change(&d)
			_, err := b.ResolveApproval(t.Context(), "t1", d)
			requireCode(t, test.want, err)
		})
	}

	b.finish(finish("t1", "s"))
	_, err = b.ResolveApproval(t.Context(), "t1", edit)
	require.NoError(t, err, "a repeated decision is accepted")
	_, err = b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a2", Decision: agent.DecisionApprove, By: "ops"})
	requireCode(t, agent.CodeConflict, err)
	requireCode(t, agent.CodeConflict, b.SaveApproval(t.Context(), tenant, approval("a3")))
	requireCode(t, agent.CodeNotFound, b.SaveApproval(t.Context(), "evil", approval("a3")))
	decided, err := b.Approvals(t.Context(), "t1")
	require.NoError(t, err)
	requireApproval(t, want, decided[0])
	require.Empty(t, decided[1].Decision)
}

// A call of a client-side tool is not listed as an approval, accepts only a result, and accepts it once.
func TestProvidedResults(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	waits := expiring("a1.result", time.Hour, agent.ExpiryReject)
	waits.Kind = agent.WaitClientTool
	b.ask(waits, approval("a2"))
	page, err := b.ListApprovals(t.Context(), agent.ApprovalQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 1)
	require.Equal(t, "a2", page.Approvals[0].ApprovalID)
	below, err := b.PendingBelow(t.Context(), "t1")
	require.NoError(t, err)
	require.Len(t, below, 2)

	provide := agent.Decision{ApprovalID: "a1.result", Decision: agent.DecisionProvide, Args: json.RawMessage(`{"sum": 5}`)}
	for _, d := range []agent.Decision{
		{ApprovalID: "a1.result", Decision: agent.DecisionApprove, By: "ops"},
		{ApprovalID: "a2", Decision: agent.DecisionProvide, Args: provide.Args},
	} {
		_, err := b.ResolveApproval(t.Context(), "t1", d)
		requireCode(t, agent.CodeInvalid, err)
	}
	want := waits
	want.Decision, want.DecidedArgs = provide.Decision, provide.Args
	for range 2 {
		got, err := b.ResolveApproval(t.Context(), "t1", provide)
		require.NoError(t, err)
		requireApproval(t, want, got)
	}
	provide.Args = json.RawMessage(`{"sum": 6}`)
	_, err = b.ResolveApproval(t.Context(), "t1", provide)
	requireCode(t, agent.CodeConflict, err)
}

func TestApprovalByID(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.ask(approval("a1"))
	for _, who := range []string{tenant, "*"} {
		got, err := b.Approval(t.Context(), who, "a1")
		require.NoError(t, err)
		requireApproval(t, approval("a1"), got)
	}
	for who, id := range map[string]string{"evil": "a1", tenant: "a2"} {
		_, err := b.Approval(t.Context(), who, id)
		requireFault(t, agent.CodeNotFound, "approval_id", err)
	}
}

func TestDecisionsThatAreRefused(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	narrow, never, unhashed := approval("narrow"), approval("never"), approval("unhashed")
	narrow.Allowed = []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject}
	never.Remember = agent.RememberOff
	unhashed.ArgsHash = ""
	b.ask(narrow, never, unhashed, approval("any"), expiring("late", -time.Minute, agent.ExpiryReject))
	args := json.RawMessage(`{}`)
	tests := map[string]struct {
		decision agent.Decision
		code     agent.Code
		field    string
		says     string
	}{
		"not allowed":     {agent.Decision{ApprovalID: "narrow", Decision: agent.DecisionEdit, Args: args}, agent.CodeInvalid, "decision", "approve or reject"},
		"never":           {agent.Decision{ApprovalID: "never", Decision: agent.DecisionApprove, Remember: true}, agent.CodeInvalid, "remember", "send"},
		"an edit":         {agent.Decision{ApprovalID: "any", Decision: agent.DecisionEdit, Args: args, Remember: true}, agent.CodeInvalid, "remember", "approve and reject"},
		"an answer":       {agent.Decision{ApprovalID: "any", Decision: agent.DecisionRespond, Message: "no", Remember: true}, agent.CodeInvalid, "remember", "approve and reject"},
		"without a hash":  {agent.Decision{ApprovalID: "unhashed", Decision: agent.DecisionApprove, Remember: true}, agent.CodeInvalid, "remember", "send"},
		"too late":        {agent.Decision{ApprovalID: "late", Decision: agent.DecisionApprove}, agent.CodeConflict, "", "expired at 20"},
		"as nobody":       {agent.Decision{ApprovalID: "any", Decision: agent.DecisionApprove, By: agent.ExpiredBy}, agent.CodeInvalid, "by", "expiry"},
		"of another turn": {agent.Decision{ApprovalID: "elsewhere", Decision: agent.DecisionApprove}, agent.CodeNotFound, "approval_id", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.ResolveApproval(t.Context(), "t1", test.decision)
			requireFault(t, test.code, test.field, err)
			require.ErrorContains(t, err, test.says)
		})
	}
	all, err := b.Approvals(t.Context(), "t1")
	require.NoError(t, err)
	for _, a := range all {
		require.Empty(t, a.Decision, "nothing is stored")
	}
	require.Zero(t, b.count("remembered_decisions"))
}

func TestExpiry(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	other := expiring("other step", -time.Minute, agent.ExpiryReject)
	other.Step = 2
	b.ask(expiring("reject", -time.Minute, agent.ExpiryReject), expiring("approve", -time.Minute, agent.ExpiryApprove),
		expiring("end", -time.Second, agent.ExpiryEnd), expiring("soon", 50*time.Millisecond, agent.ExpiryReject),
		expiring("later", time.Hour, agent.ExpiryReject), approval("never"), other)
	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "later", Decision: agent.DecisionApprove, By: "ops"})
	require.NoError(t, err)

	outcomes := func() (map[string]agent.DecisionKind, time.Duration) {
		expired, next, err := b.ExpireApprovals(t.Context(), "t1", 1)
		require.NoError(t, err)
		found := map[string]agent.DecisionKind{}
		for _, a := range expired {
			require.Equal(t, agent.ExpiredBy, a.By)
			require.Equal(t, "nobody decided in time", a.Message)
			require.NotNil(t, a.DecidedAt)
			found[a.ApprovalID] = a.Decision
		}
		return found, next
	}
	want := map[string]agent.DecisionKind{"reject": agent.DecisionReject, "approve": agent.DecisionApprove, "end": agent.DecisionReject}
	first, next := outcomes()
	if _, early := first["soon"]; !early { // may happen on a slow machine
		require.Equal(t, want, first)
		require.Positive(t, next)
		require.LessOrEqual(t, next, 50*time.Millisecond)
	}
	want["soon"] = agent.DecisionReject
	require.Eventually(t, func() bool { again, _ := outcomes(); return len(again) == len(want) }, 5*time.Second, 5*time.Millisecond)
	for range 2 {
		again, next := outcomes()
		require.Equal(t, want, again, "the second call returns the same")
		require.Zero(t, next, "approvals without a deadline do not expire")
	}
	_, err = b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "approve", Decision: agent.DecisionApprove, By: "ops"})
	requireCode(t, agent.CodeConflict, err)
	require.ErrorContains(t, err, "expired at")

	b.ask(expiring("second", time.Hour, agent.ExpiryReject))
	_, next = outcomes()
	require.InDelta(t, time.Hour, next, float64(time.Minute))
	b.finish(finish("t1", "s"))
	_, next = outcomes()
	require.Zero(t, next, "the turn has ended")
	expired, next, err := b.ExpireApprovals(t.Context(), "t1", 2)
	require.NoError(t, err)
	require.Empty(t, expired, "nothing is decided for a turn that has ended")
	require.Zero(t, next)
}

// An approval that is decided by a person and expires at the same time has one outcome, which both see.
func TestDecisionAndExpiryRace(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	for i := range 30 {
		id := fmt.Sprint(i)
		a := expiring(id, 4*time.Millisecond, agent.ExpiryApprove)
		a.Step = i + 1
		b.ask(a)
		var (
			wg                     sync.WaitGroup
			decided, expireErr     error
			expired                []agent.Approval
			reject                 = agent.Decision{ApprovalID: id, Decision: agent.DecisionReject, By: "ops"}
			untilDue, somewhatLate = time.Until(*a.ExpiresAt), time.Duration(i%5) * time.Millisecond
		)
		wg.Go(func() {
			time.Sleep(untilDue - 2*time.Millisecond + somewhatLate) // tests the race
			_, decided = b.ResolveApproval(t.Context(), "t1", reject)
		})
		wg.Go(func() {
			for len(expired) == 0 && expireErr == nil {
				var next time.Duration
				if expired, next, expireErr = b.ExpireApprovals(t.Context(), "t1", a.Step); next == 0 {
					return
				}
			}
		})
		wg.Wait()
		require.NoError(t, expireErr)
		stands, err := b.Approval(t.Context(), tenant, id)
		require.NoError(t, err)
		if decided == nil {
			require.Equal(t, agent.DecisionReject, stands.Decision)
			require.Empty(t, expired)
			continue
		}
		requireCode(t, agent.CodeConflict, decided)
		require.Equal(t, agent.ExpiredBy, stands.By)
		require.Len(t, expired, 1)
	}
}

// TestNewTurnsAreRefusedWhileTheHolderWaits: with RefuseWaiting, a turn is not queued behind a turn that waits for a decision.
func TestNewTurnsAreRefusedWhileTheHolderWaits(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	next := turn("t2", "s")
	next.RefuseWaiting = true
	b.ask(approval("open"))
	refused := b.begin(next)
	require.Equal(t, agent.BeginWaiting, refused.Answer)
	require.EqualValues(t, "t1", refused.Holder)
	require.Zero(t, b.count("turns WHERE turn_id = 't2'"))

	next.RefuseWaiting = false
	require.Equal(t, agent.BeginBehind, b.begin(next).Answer)
	next.RefuseWaiting = true
	require.Equal(t, agent.BeginBehind, b.begin(next).Answer, "it is already recorded")

	b.ready("u1", "late")
	late := expiring("late", -time.Second, agent.ExpiryReject)
	late.TurnID = "u1"
	b.ask(late)
	next = turn("u2", "late")
	next.RefuseWaiting = true
	require.Equal(t, agent.BeginBehind, b.begin(next).Answer, "the approval has expired")
}

func (b *bench) listIDs(q agent.ApprovalQuery) []string {
	b.t.Helper()
	ids := []string{}
	for pages := 0; ; pages++ {
		require.Less(b.t, pages, 100)
		page, err := b.ListApprovals(b.t.Context(), q)
		require.NoError(b.t, err)
		for _, a := range page.Approvals {
			require.NotEmpty(b.t, a.SessionID)
			require.Equal(b.t, "analyst", a.Agent)
			ids = append(ids, a.ApprovalID)
		}
		if q.After = page.Next; q.After == "" {
			return ids
		}
		require.NotEmpty(b.t, page.Approvals)
	}
}

func TestListApprovals(t *testing.T) {
	b := newBench(t, postgres.Config{})
	ask := func(id, turnID string) {
		a := approval(id)
		a.TurnID = agent.TurnID(turnID)
		b.ask(a)
	}
	b.ready("t1", "s1")
	b.ready("t2", "s2")
	b.ready("t3", "s3")
	foreign := turn("f1", "s1")
	foreign.Tenant = "evil"
	b.begin(foreign)
	ask("ended", "t1")
	ask("decided in time", "t1")
	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "decided in time", Decision: agent.DecisionApprove, By: "ops"})
	require.NoError(t, err)
	b.finish(finish("t1", "s1"))
	for i := range 5 {
		ask(fmt.Sprintf("p%d", i), "t2")
	}
	ask("other", "t3")
	b.ask(func() agent.Approval {
		a := expiring("late", -time.Second, agent.ExpiryReject)
		a.TurnID = "t3"
		return a
	}())
	secret := approval("secret")
	secret.TurnID = "f1"
	require.NoError(t, b.SaveApproval(t.Context(), "evil", secret))

	all := []string{"decided in time", "p0", "p1", "p2", "p3", "p4", "other"}
	tests := map[string]struct {
		q    agent.ApprovalQuery
		want []string
	}{
		"both":         {agent.ApprovalQuery{}, all},
		"pending":      {agent.ApprovalQuery{State: "pending"}, all[1:]},
		"decided":      {agent.ApprovalQuery{State: "decided"}, all[:1]},
		"of a turn":    {agent.ApprovalQuery{TurnID: "t2"}, all[1:6]},
		"of a session": {agent.ApprovalQuery{SessionID: "s3"}, all[6:]},
		"of neither":   {agent.ApprovalQuery{TurnID: "t2", SessionID: "s3"}, []string{}},
		"every tenant": {agent.ApprovalQuery{Tenant: "*", State: "pending"}, append(all[1:len(all):len(all)], "secret")},
		"bad text":     {agent.ApprovalQuery{TurnID: "t2\x00\xff"}, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.q.Tenant == "" {
				test.q.Tenant = tenant
			}
			for _, limit := range []int{0, 1, 2, 3, 500} {
				test.q.Limit = limit
				require.Equal(t, test.want, b.listIDs(test.q), "limit %d", limit)
			}
		})
	}
}

func TestListApprovalsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	for i := range 5 {
		a := approval(fmt.Sprint(i))
		a.Args = json.RawMessage(`"` + strings.Repeat("x", 3<<20) + `"`)
		b.ask(a)
	}
	page, err := b.ListApprovals(t.Context(), agent.ApprovalQuery{Tenant: tenant})
	require.NoError(t, err)
	require.Len(t, page.Approvals, 2)
	require.Len(t, b.listIDs(agent.ApprovalQuery{Tenant: tenant}), 5)
}

func TestListApprovalsRefuses(t *testing.T) {
	b := newBench(t, postgres.Config{})
	token := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, q := range map[string]agent.ApprovalQuery{
		"page_token 1": {After: "%%%"},
		"page_token 2": {After: token(`{}`)},
		"page_token 3": {After: token(`{"c":1,"t":"\u0000","a":"a"}`)},
		"page_token 4": {After: token(`{"c":9000000000000000000,"t":"t","a":"a"}`)},
		"page_token 5": {After: strings.Repeat("A", 1<<20)},
		"state":        {State: "open"},
		"limit 1":      {Limit: -1},
		"limit 2":      {Limit: 501},
	} {
		q.Tenant = tenant
		_, err := b.ListApprovals(t.Context(), q)
		requireFault(t, agent.CodeInvalid, strings.Fields(name)[0], err)
	}
}

// remember decides an approval of a call and lets the decision be remembered.
func (b *bench) remember(id, tool, hash string, scope agent.RememberScope, kind agent.DecisionKind) {
	b.t.Helper()
	a := approval(id)
	a.ToolName, a.ArgsHash, a.Remember = tool, hash, scope
	b.ask(a)
	got, err := b.ResolveApproval(b.t.Context(), "t1", agent.Decision{ApprovalID: id, Decision: kind, Message: "because " + id, By: "ops", Remember: true})
	require.NoError(b.t, err)
	require.True(b.t, got.Remembered)
}

// rememberedDecision returns the remembered decision that applies to a call, as text.
func (b *bench) rememberedDecision(session, tool, hash string) string {
	b.t.Helper()
	key := agent.RememberKey{Tool: tool, ArgsHash: hash}
	others := []agent.RememberKey{{Tool: "send", ArgsHash: "h1"}, {Tool: "send", ArgsHash: "h2"}, {Tool: "other", ArgsHash: "h1"}}
	found, err := b.Remembered(b.t.Context(), tenant, agent.SessionID(session), append(others, key))
	require.NoError(b.t, err)
	alone, err := b.Remembered(b.t.Context(), tenant, agent.SessionID(session), []agent.RememberKey{key})
	require.NoError(b.t, err)
	require.LessOrEqual(b.t, len(alone), 1, "at most one decision applies to a call")
	for _, r := range found {
		if r.Key.Tool == tool && (r.Key.ArgsHash == "" || r.Key.ArgsHash == hash) {
			require.Equal(b.t, []agent.Remembered{r}, alone, "other keys do not change the decision")
			return fmt.Sprintf("%s, %s by %s", r.Decision, r.Message, r.By)
		}
	}
	require.Empty(b.t, alone)
	return ""
}

func TestRemembered(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.Empty(t, b.rememberedDecision("s", "send", "h1"))

	b.remember("a1", "send", "h1", agent.RememberCall, agent.DecisionApprove)
	require.Equal(t, "approve, because a1 by ops", b.rememberedDecision("s", "send", "h1"))
	require.Empty(t, b.rememberedDecision("s", "send", "h2"), "other arguments")
	require.Empty(t, b.rememberedDecision("s", "other", "h1"), "another tool")
	require.Empty(t, b.rememberedDecision("s2", "send", "h1"), "another session")

	b.remember("a2", "send", "h2", agent.RememberTool, agent.DecisionReject)
	require.Equal(t, "reject, because a2 by ops", b.rememberedDecision("s", "send", "h1"), "the newest that applies")
	require.Equal(t, "reject, because a2 by ops", b.rememberedDecision("s", "send", "h3"), "it applies to all calls of the tool")

	b.remember("a3", "send", "h1", "", agent.DecisionApprove)
	require.Equal(t, "approve, because a3 by ops", b.rememberedDecision("s", "send", "h1"))
	require.Equal(t, "reject, because a2 by ops", b.rememberedDecision("s", "send", "h2"))
	require.Equal(t, 2, b.count("remembered_decisions"), "one for the call and one for the tool")

	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, Message: "because a1", By: "ops", Remember: true})
	require.NoError(t, err)
	require.Equal(t, "approve, because a3 by ops", b.rememberedDecision("s", "send", "h1"), "a repeated decision does not become the newest")

	foreign, err := b.Remembered(t.Context(), "evil", "s", []agent.RememberKey{{Tool: "send", ArgsHash: "h1"}})
	require.NoError(t, err)
	require.Empty(t, foreign)
	none, err := b.Remembered(t.Context(), tenant, "s", nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestDecisionsAreNotRememberedByDefault(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.ask(approval("a1"))
	got, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, By: "ops"})
	require.NoError(t, err)
	require.False(t, got.Remembered)
	require.Zero(t, b.count("remembered_decisions"))
}
