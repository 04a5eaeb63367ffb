package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// shownText returns the text that a client shows after some responses.
func shownText(all []*pb.AgentResponse) string {
	var kept []*pb.AgentResponse
	for _, r := range all {
		if r.GetReset_() {
			kept = slices.DeleteFunc(kept, func(k *pb.AgentResponse) bool { return k.GetEventIndex() >= r.GetFromIndex() })
		}
		if r.GetText() != "" && !r.GetIsFinal() {
			kept = append(kept, r)
		}
	}
	var b strings.Builder
	for _, k := range kept {
		b.WriteString(k.GetText())
	}
	return b.String()
}

func classifyEvent(branch string) agent.Event {
	return agent.Event{
		Meta: agent.EventMeta{Producer: "prepare"}, Type: agent.EventToolEnd, ToolName: agent.PrepareClassify,
		Output: json.RawMessage(`{"branch":"` + branch + `"}`),
	}
}

// emitCitedAnswer ends a turn with two text blocks, of which the second has a citation.
func emitCitedAnswer(rt *gatewaytest.Runtime, id agent.TurnID) {
	start, end := 3, 6
	out := rt.Output(id, agent.TurnCompleted, "Süß. It [1].")
	out.Blocks = []agent.Block{agent.Text("Süß. "), {Type: agent.BlockReasoning, Reasoning: "hm"}, {Type: agent.BlockText, Text: "It [1].", Annotations: []agent.Annotation{
		{Type: "citation", Title: "Rules", URL: "http://x/rules", StartIndex: &start, EndIndex: &end, CitedText: "be kind"}, {Type: "other"},
	}}}
	out.Structured = json.RawMessage(`{"ok":true}`)
	rt.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: out})
}

func TestAskAgent(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, gatewaytest.Status(agent.StatusRunning), classifyEvent(agent.BranchRetrieval), gatewaytest.Token("Süß. "))
		emitCitedAnswer(rt, id)
	}
	c := pb.NewAgentRuntimeClient(d.dial())
	var header metadata.MD
	a, err := c.AskAgent(t.Context(), &pb.AgentRequest{
		Query: "is it sweet?", SessionId: "s", Agent: "guide", Context: &pb.InvocationContext{Tenant: "acme", UserId: "u"}, History: "fresh",
		Model: "m", TurnId: "t", IdempotencyKey: "k", Limits: &pb.Limits{Iterations: 3}, OutputSchema: `{"type":"object"}`, Mode: "direct", OnBusy: "reject",
	}, grpc.Header(&header))
	require.NoError(t, err)
	require.Equal(t, []string{"t"}, header.Get("turnstone-turn-id"))
	require.True(t, a.GetIsFinal())
	require.Equal(t, []string{"Süß. It [1].", "t", "s", "completed", "retrieval"},
		[]string{a.GetText(), a.GetTurnId(), a.GetSessionId(), a.GetStatus(), a.GetBranch()})
	require.Equal(t, int64(4), a.GetEventIndex())
	require.Len(t, a.GetCitations(), 1)
	cite := a.GetCitations()[0]
	require.Equal(t, "[1]", string([]rune(a.GetText())[cite.GetStartIndex():cite.GetEndIndex()]), "places count in the whole text")
	require.Equal(t, "http://x/rules", cite.GetUrl())
	require.Nil(t, a.GetError())
	require.JSONEq(t, `{"ok":true}`, a.GetOutput().GetStructured())
	require.Equal(t, agent.TurnRequest{
		TurnID: "t", Agent: "guide", SessionID: "s", Message: "is it sweet?", Context: agent.InvocationContext{Tenant: "acme", UserID: "u"},
		History: agent.HistoryFresh, Mode: agent.ModeDirect, Model: "m", Limits: &agent.Limits{Iterations: 3}, Channel: "grpc", IdempotencyKey: "k",
		OutputSchema: json.RawMessage(`{"type":"object"}`), OnBusy: agent.OnBusyReject,
	}, d.rt.Submitted()[0].Request)
}

func TestAskAgentEnds(t *testing.T) {
	d := startGateway(t, nil)
	c := pb.NewAgentRuntimeClient(d.dial())
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Finish(id, agent.TurnFailed, "so far")
	}
	a, err := c.AskAgent(t.Context(), &pb.AgentRequest{Query: "x"})
	require.NoError(t, err, "a turn that fails is an answer")
	require.Equal(t, "ask", d.rt.Submitted()[0].Request.Agent, "where the question names no agent")
	require.Equal(t, "failed", a.GetStatus())
	require.Equal(t, "so far", a.GetText())
	require.Equal(t, "model_error", a.GetError().GetType())

	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, gatewaytest.Token("a"), agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a1"}},
			gatewaytest.Status(agent.StatusWaiting))
	}
	_, err = c.AskAgent(t.Context(), &pb.AgentRequest{Query: "x"})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Equal(t, "a1", detail[*pb.WaitingTurn](t, err).GetPending()[0].GetApprovalId())

	s, err := c.AskAgentStream(t.Context(), &pb.AgentRequest{Query: "x"})
	require.NoError(t, err)
	for _, want := range []string{"", "waiting"} {
		r, err := s.Recv()
		require.NoError(t, err)
		require.Equal(t, want, r.GetStatus())
	}
	d.rt.Emit("turn-3", approvalResolved("a1"), gatewaytest.Status(agent.StatusRunning), gatewaytest.Token("b"))
	d.rt.Finish("turn-3", agent.TurnCancelled, "ab")
	rest := collect(t, s)
	require.Len(t, rest, 2)
	require.Equal(t, "cancelled", rest[1].GetStatus())
}

func TestAskAgentRefuses(t *testing.T) {
	d := startGateway(t, nil)
	c := pb.NewAgentRuntimeClient(d.dial())
	for name, tc := range map[string]struct {
		req   *pb.AgentRequest
		code  codes.Code
		field string
	}{
		"no question":   {&pb.AgentRequest{}, codes.InvalidArgument, "query"},
		"only blanks":   {&pb.AgentRequest{Query: " \n"}, codes.InvalidArgument, "query"},
		"session":       {&pb.AgentRequest{Query: "x", SessionId: "a b"}, codes.InvalidArgument, "session_id"},
		"history":       {&pb.AgentRequest{Query: "x", History: "some"}, codes.InvalidArgument, "history"},
		"output schema": {&pb.AgentRequest{Query: "x", OutputSchema: "{"}, codes.InvalidArgument, "output_schema"},
		"limits":        {&pb.AgentRequest{Query: "x", Limits: &pb.Limits{Iterations: -1}}, codes.InvalidArgument, "limits.iterations"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.AskAgent(t.Context(), tc.req)
			require.Equal(t, tc.code, status.Code(err))
			require.Equal(t, tc.field, detail[*pb.Failure](t, err).GetField())
			s, err := c.AskAgentStream(t.Context(), tc.req)
			require.NoError(t, err)
			_, err = s.Recv()
			require.Equal(t, tc.code, status.Code(err))
		})
	}
	require.Empty(t, d.rt.Submitted())
}

func TestAskAgentStream(t *testing.T) {
	say := func(producer, text string) agent.Event {
		return agent.Event{Meta: agent.EventMeta{Producer: producer}, Type: agent.EventToken, Text: text}
	}
	reset := func(producer string, from int64) agent.Event {
		return agent.Event{Type: agent.EventReset, Producer: producer, FromIndex: from}
	}
	cases := map[string]struct {
		events []agent.Event
		resets int
		shown  string
	}{
		"word by word":        {[]agent.Event{say("model/1", "Hello "), say("model/1", ""), say("model/1", "world")}, 0, "Hello world"},
		"the model again":     {[]agent.Event{say("model/1", "Hel"), reset("model/1", 1), say("model/1", "Good day")}, 1, "Good day"},
		"its second half":     {[]agent.Event{say("model/1", "One "), say("model/2", "tw"), reset("model/2", 2), say("model/2", "two")}, 1, "One two"},
		"twice":               {[]agent.Event{say("model/1", "a"), reset("model/1", 1), say("model/1", "b"), reset("model/1", 1), say("model/1", "c")}, 2, "c"},
		"nothing was written": {[]agent.Event{reset("model/1", 1), say("model/1", "a"), reset("model/1", 3)}, 0, "a"},
		"a tool's":            {[]agent.Event{say("model/1", "a"), reset("tool/1/c", 1), say("model/1", "b")}, 0, "ab"},
		"all of it":           {[]agent.Event{say("model/1", "Let me see. "), say("model/2", "Süß. "), say("model/2", "It [1].")}, 0, "Let me see. Süß. It [1]."},
		"all, after a reset":  {[]agent.Event{say("model/1", "Süß. It [1]."), reset("model/1", 1), say("model/1", "Süß. It [1].")}, 1, "Süß. It [1]."},
		"taken back":          {[]agent.Event{say("model/1", "Süß. It [1]."), reset("model/1", 1)}, 1, ""},
		"of an agent's own":   {[]agent.Event{{Meta: agent.EventMeta{Producer: "tool/1/c"}, Type: agent.EventToolEnd, ToolName: "classify", Output: json.RawMessage(`{"branch":"x"}`)}, say("model/1", "a")}, 0, "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := startGateway(t, nil)
			d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
				rt.Emit(id, tc.events...)
				emitCitedAnswer(rt, id)
			}
			c := pb.NewAgentRuntimeClient(d.dial())
			s, err := c.AskAgentStream(t.Context(), &pb.AgentRequest{Query: "x", TurnId: "t"})
			require.NoError(t, err)
			header, err := s.Header()
			require.NoError(t, err)
			require.Equal(t, []string{"t"}, header.Get("turnstone-turn-id"))
			all := collect(t, s)
			require.Equal(t, tc.shown, shownText(all))
			resets := 0
			for i, r := range all {
				if r.GetReset_() {
					resets++
				}
				require.Equal(t, i == len(all)-1, r.GetIsFinal())
				require.Equal(t, "t", r.GetTurnId())
				require.Empty(t, r.GetBranch())
			}
			require.Equal(t, tc.resets, resets)
			last := all[len(all)-1]
			whole := "Süß. It [1]."
			if strings.HasSuffix(tc.shown, whole) {
				whole = "" // the client has it
			}
			require.Equal(t, whole, last.GetText())
			require.Equal(t, whole, last.GetOutput().GetOutput())
			require.Equal(t, whole == "", !strings.Contains(last.String(), "It [1]"), "nor is it in the blocks")
			require.Len(t, last.GetCitations(), 1)
			require.JSONEq(t, `{"ok":true}`, last.GetOutput().GetStructured())
			// The same request again gets all responses again.
			again, err := c.AskAgentStream(t.Context(), &pb.AgentRequest{Query: "x", TurnId: "t"})
			require.NoError(t, err)
			require.Len(t, collect(t, again), len(all))
			require.Contains(t, string(d.send("GET", "/v1/turns/t", "").body), `"structured":{"ok":true}`)
		})
	}
}

func TestAskAgentStreamAsItComes(t *testing.T) {
	d := startGateway(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	c := pb.NewAgentRuntimeClient(d.dial())
	s, err := c.AskAgentStream(ctx, &pb.AgentRequest{Query: "x", TurnId: "t"})
	require.NoError(t, err)
	_, err = s.Header()
	require.NoError(t, err)
	d.rt.Emit("t", classifyEvent(agent.BranchCode))
	for _, word := range []string{"one ", "two "} {
		d.rt.Emit("t", gatewaytest.Token(word))
		r, err := s.Recv()
		require.NoError(t, err)
		require.Equal(t, word, r.GetText(), "each piece comes before the next one is written")
		require.Equal(t, "code", r.GetBranch())
	}
	// The turn goes on when the client leaves, and the same request again gets its result.
	d.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error { t.Error("the turn was cancelled"); return nil }
	cancel()
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 5*time.Second, time.Millisecond)
	d.rt.Finish("t", agent.TurnCompleted, "one two three")
	d.rt.Expire(3)
	again, err := c.AskAgentStream(t.Context(), &pb.AgentRequest{Query: "x", TurnId: "t"})
	require.NoError(t, err)
	all := collect(t, again)
	require.Len(t, all, 1, "its first events have expired: the result alone")
	require.Equal(t, "one two three", all[0].GetText())
}

func TestAskAgentStreamOfARunningTurnWhoseEventsExpired(t *testing.T) {
	d := startGateway(t, nil)
	d.begin("t")
	d.rt.Emit("t", gatewaytest.Token("a"), gatewaytest.Token("b"), gatewaytest.Token("c"))
	d.rt.Expire(3)
	s, err := pb.NewAgentRuntimeClient(d.dial()).AskAgentStream(t.Context(), &pb.AgentRequest{Query: "x", TurnId: "t"})
	require.NoError(t, err)
	r, err := s.Recv()
	require.NoError(t, err)
	require.Equal(t, "c", r.GetText())
	d.rt.Finish("t", agent.TurnCompleted, "abc")
	require.Len(t, collect(t, s), 1)
}
