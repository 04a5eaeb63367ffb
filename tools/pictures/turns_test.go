package pictures_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/workflows"
)

// The turns that the pictures show.
const (
	flights = agent.TurnID("flights-1") // one tool
	cheaper = agent.TurnID("flights-2") // in the same session
	errand  = agent.TurnID("errand-1")  // has a child turn of another agent
	alert   = agent.TurnID("alert-1")   // waits for a person
	long    = agent.TurnID("long-1")    // has an offloaded input
)

const question = "fetch flights from NYC to LAX, sort by price, show top 3"

// policy is repeated in the input of long, so that the input is offloaded.
const policy = "Flights of less than six hours are booked in economy."

// lead is an agent that delegates to the analyst.
const lead = `{"kind": "AgentInstance", "name": "lead", "node_id": "agent", "node_version": "1",
	"parameters": {"system_message": "You hand work to others."}, "tools": [], "delegates": ["analyst"]}`

// runTurns runs the turns. All of them end, except alert, which waits.
func (s *stack) runTurns(t *testing.T) {
	t.Helper()
	_, err := s.client.Apply(t.Context(), agent.ApplyRequest{
		Files: []agent.ManifestFile{{Name: "lead.json", Data: []byte(lead)}}, Publish: true, By: "pictures", Source: agent.SourceAPI,
	})
	require.NoError(t, err)
	s.runTurn(t, agent.TurnRequest{TurnID: flights, SessionID: "trip-1", Message: question})
	s.runTurn(t, agent.TurnRequest{TurnID: cheaper, SessionID: "trip-1", Message: "and the ones under $300?"})
	s.runTurn(t, agent.TurnRequest{TurnID: errand, SessionID: "desk-7", Agent: "lead", Message: "ask analyst: " + question})
	s.startByHand(t, agent.TurnRequest{SessionID: "trip-2", Message: question, Context: agent.InvocationContext{
		Metadata: map[string]any{"policy": strings.Repeat(policy+" ", 200)},
	}})
	_, err = s.client.Start(t.Context(), agent.TurnRequest{TurnID: alert, SessionID: "prices", Message: "add email notification whenever price drops below $500"})
	require.NoError(t, err)
	for e, err := range s.client.Follow(t.Context(), alert, 0) {
		require.NoError(t, err)
		if e.Type == agent.EventStatus && e.Status == agent.StatusWaiting {
			return
		}
	}
	require.Fail(t, "nobody is asked")
}

// runTurn starts a turn and waits until it has completed.
func (s *stack) runTurn(t *testing.T, r agent.TurnRequest) {
	t.Helper()
	receipt, err := s.client.Start(t.Context(), r)
	require.NoError(t, err)
	var last agent.Event
	for e, err := range s.client.Follow(t.Context(), receipt.TurnID, 0) {
		require.NoError(t, err)
		last = e
	}
	require.Equal(t, agent.TerminalStatus(agent.TurnCompleted), last.Status, "%s: %s", r.TurnID, last.Reason)
}

// startByHand runs long with a Temporal client that has dev's keys and blob store, because the input of a turn that the gateway starts is only an id,
// which is never offloaded.
func (s *stack) startByHand(t *testing.T, r agent.TurnRequest) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(s.dir, "turnstone-dev-*", "blobs"))
	require.NoError(t, err)
	require.Len(t, folders, 1, "the blob store of dev")
	blobs, err := blob.Open(t.Context(), "file://"+folders[0])
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, blobs.Close()) })
	keys, err := codec.ParseKeyList(s.keys)
	require.NoError(t, err)
	c, err := codec.New(codec.Config{Keys: keys, Objects: blobs.Payloads(), Threshold: offloadBytes})
	require.NoError(t, err)
	temporal, err := client.DialContext(t.Context(), c.Options(client.Options{HostPort: s.temporal}))
	require.NoError(t, err)
	t.Cleanup(temporal.Close)
	run, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: long.WorkflowID(), TaskQueue: "turnstone"},
		workflows.AgentTurnType, r)
	require.NoError(t, err)
	var out agent.AgentStepOutput
	require.NoError(t, run.Get(t.Context(), &out))
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
}
