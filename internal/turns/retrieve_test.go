package turns_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// makeAskPlan changes a plan so that it classifies, reformulates and retrieves.
func makeAskPlan(p *agent.Plan) {
	p.Prepare = []agent.PlanStep{
		{Kind: agent.PrepareClassify, Prompt: "Classify.", Branches: []agent.PlanBranch{
			{Name: agent.BranchRetrieval, System: "Answer from the context.", Retrieve: true},
			{Name: agent.BranchConversational, System: "Just talk."},
		}},
		{Kind: agent.PrepareReformulate, Prompt: "Reformulate."},
		{Kind: agent.PrepareRetrieve, Collection: "rules", Tenant: "*", TopK: 3},
		{Kind: agent.PrepareRetrieve, Collection: "news", Tenant: "acme", TopK: 2, MinScore: 0.5},
	}
}

func asking(t *testing.T, change ...func(*turns.Config)) *harness {
	t.Helper()
	h := newHarness(t, change...)
	h.catalog.change(makeAskPlan)
	h.library.passages = []agent.Passage{{ID: "1", DocumentID: "d", Title: "Rules", Source: "http://x/rules", Text: "Be kind."}}
	out, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t1", SessionID: "s1", Message: "and what do they say?"}, turns.BeginTurnInput{RunID: "r"})
	require.NoError(t, err)
	require.True(t, out.Prepare)
	return h
}

// steps returns the names of the preparation steps in events, each with whether it begins or ends.
func steps(events []agent.Event) (out []string) {
	for i := range events {
		switch e := &events[i]; e.Type {
		case agent.EventToolStart:
			out = append(out, e.ToolName)
		case agent.EventToolEnd:
			out = append(out, e.ToolName+" "+string(e.Output))
		default:
		}
	}
	return out
}

func TestRetrieve(t *testing.T) {
	h := asking(t)
	h.model.script(says("Category: RETRIEVAL."), says(" what do the rules say? "), says("Be kind [1]. It says `[1]`."))
	for range 2 {
		v := h.retrieve(turns.RetrieveInput{TurnID: "t1"})
		require.Equal(t, agent.BranchRetrieval, v.Branch)
		require.Equal(t, 2, v.Passages)
		require.Equal(t, int64(200), v.Usage.InputTokens)
	}
	require.Len(t, h.model.seen, 2, "a stored preparation is not repeated")
	require.Equal(t, []string{"Classify.", "Reformulate."}, []string{h.model.seen[0].System, h.model.seen[1].System})
	require.Empty(t, h.model.seen[0].Tools)
	require.Len(t, h.library.asked, 2)
	for _, q := range h.library.asked {
		require.Equal(t, "what do the rules say?", q.Text)
	}
	require.Empty(t, shown(h.events("t1")), "the preparation is not part of the answer")
	require.Equal(t, []string{
		"classify", `classify {"branch":"retrieval"}`, "reformulate", `reformulate {"query":"what do the rules say?"}`, "retrieve",
	}, steps(h.events("t1"))[:5])

	h.callModel("t1", 1)
	system := h.model.seen[2].SystemPrompt()
	require.Equal(t, "Answer from the context.", h.model.seen[2].System, "the passages are not part of the cached prompt")
	require.Contains(t, system, "Answer from the context.")
	require.Contains(t, system, "Be kind.")
	require.NotContains(t, system, "You are an analyst.")
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	observerNotes := models[0].Blocks[0].Annotations
	require.Len(t, observerNotes, 1, "a reference in code is not a citation")
	require.Equal(t, "http://x/rules", observerNotes[0].URL)
	events := h.events("t1")
	last := events[len(events)-1]
	require.Equal(t, agent.EventContent, last.Type)
	require.Equal(t, observerNotes, last.ContentBlocks[0].Annotations)
}

func TestRetrieveBranches(t *testing.T) {
	cases := map[string]struct {
		word     string
		requests int
		searches int
		branch   string
		system   string
	}{
		"conversational": {"conversational", 1, 0, agent.BranchConversational, "Just talk."},
		"none of them":   {"banana", 2, 2, agent.BranchRetrieval, "nothing was found"},
		"both":           {"conversational, not retrieval", 1, 0, agent.BranchConversational, "Just talk."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := asking(t)
			h.library.passages = nil
			h.model.script(says(c.word), says("q"))
			v := h.retrieve(turns.RetrieveInput{TurnID: "t1"})
			require.Equal(t, c.branch, v.Branch)
			require.Equal(t, c.requests, v.Requests)
			require.Len(t, h.library.asked, c.searches)
			h.model.script(says("hi"))
			h.callModel("t1", 1)
			require.Contains(t, h.model.seen[len(h.model.seen)-1].SystemPrompt(), c.system)
		})
	}
}

func TestRetrieveFails(t *testing.T) {
	t.Run("the model", func(t *testing.T) {
		h := asking(t)
		h.model.script(fails(agent.Errorf(agent.CodeDenied, "", "no key")))
		v := h.retrieve(turns.RetrieveInput{TurnID: "t1"})
		require.Equal(t, string(agent.CodeUnavailable), v.Failure.Type)
		require.Contains(t, steps(h.events("t1"))[1], `"type":"unavailable"`)
	})
	t.Run("the search is away", func(t *testing.T) {
		h := asking(t)
		h.library.err = agent.Errorf(agent.CodeUnavailable, "", "away")
		h.model.script(says("retrieval"), says("q"))
		_, err := h.Retrieve(t.Context(), turns.RetrieveInput{TurnID: "t1"})
		require.ErrorContains(t, err, "away", "Temporal has to retry")
	})
	t.Run("the collection is gone", func(t *testing.T) {
		h := asking(t)
		h.library.err = agent.Errorf(agent.CodeNotFound, "", "gone")
		h.model.script(says("retrieval"), says("q"))
		v := h.retrieve(turns.RetrieveInput{TurnID: "t1"})
		require.Equal(t, string(agent.CodeNotFound), v.Failure.Type)
	})
	t.Run("cancelled", func(t *testing.T) {
		h := asking(t)
		stopped := make(chan struct{})
		h.model.script(hangs("ret", stopped))
		done := make(chan agent.PrepareVerdict)
		go func() {
			v, err := h.Retrieve(t.Context(), turns.RetrieveInput{TurnID: "t1"})
			if err != nil {
				t.Error(err)
			}
			done <- v
		}()
		require.NoError(t, h.MarkCancelled(t.Context(), "t1"))
		require.True(t, (<-done).Cancelled)
	})
	t.Run("out of time", func(t *testing.T) {
		h := asking(t)
		stopped := make(chan struct{})
		h.model.script(hangs("ret", stopped))
		v := h.retrieve(turns.RetrieveInput{TurnID: "t1", BudgetMS: 50})
		require.True(t, v.OutOfTime)
		<-stopped
	})
}

func TestHooksSeeTheQuestionFirst(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(makeAskPlan)
	h.catalog.change(func(p *agent.Plan) {
		p.Middleware = append(p.Middleware, agent.PlanMiddleware{Name: "pii", Options: json.RawMessage(`{"pii_type":"email"}`)})
	})
	h.begin(agent.TurnRequest{TurnID: "t1", Message: "write to bob@example.com"})
	h.model.script(says("conversational"))
	h.retrieve(turns.RetrieveInput{TurnID: "t1"})
	require.NotContains(t, agent.Normalize(h.model.seen[0].Messages[0].Blocks), "bob@")
	for _, e := range h.events("t1") {
		require.NotContains(t, string(e.Input), "bob@")
	}
}

func fails(err error) modelStep {
	return func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, err
	}
}

// TestPreparationWaitsForTheProvider: a preparation whose provider is unavailable is repeated later, like a model call, and viewers are
// told. It fails after the turn has waited for as long as it may.
func TestPreparationWaitsForTheProvider(t *testing.T) {
	h := asking(t, func(c *turns.Config) { c.ProviderWait = time.Minute })
	away := func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, agent.Errorf(agent.CodeUnavailable, "", "away")
	}
	refused := func(context.Context, agent.ModelRequest, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, agent.Errorf(agent.CodeDenied, "", "bad key")
	}
	for _, c := range []struct {
		in      turns.RetrieveInput
		script  []modelStep
		retryIn int64
		reason  string
	}{
		{turns.RetrieveInput{TurnID: "t1"}, []modelStep{says("retrieval"), away, away}, 5_000, "next try in 5s"},
		{turns.RetrieveInput{TurnID: "t1", PausedMS: 20_000}, []modelStep{away, away}, 20_000, "next try in 20s"},
		{turns.RetrieveInput{TurnID: "t1", PausedMS: 50_000}, []modelStep{away, away}, 0, "next try in 20s"},
		{turns.RetrieveInput{TurnID: "t1"}, []modelStep{refused}, 0, "next try in 20s"},
	} {
		h.model.script(c.script...)
		v := h.retrieve(c.in)
		require.Equal(t, "unavailable", v.Failure.Type)
		require.Equal(t, c.retryIn, v.RetryInMS)
		reason := ""
		for _, e := range h.events("t1") {
			if e.Type == agent.EventStatus {
				reason = e.Reason
			}
		}
		require.Contains(t, reason, c.reason)
	}
	h.model.script(says("retrieval"), says("what do the rules say?"))
	v := h.retrieve(turns.RetrieveInput{TurnID: "t1", PausedMS: 25_000})
	require.Nil(t, v.Failure)
	require.Equal(t, 2, v.Passages)
}
