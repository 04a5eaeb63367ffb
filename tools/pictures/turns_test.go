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
	cheaper = agent.TurnID("flights-2") // the same session
	errand  = agent.TurnID("errand-1")  // a sub-agent's turn in it
	alert   = agent.TurnID("alert-1")   // waits for a person
	long    = agent.TurnID("long-1")    // its input is offloaded
)

const question = "fetch flights from NYC to LAX, sort by price, show top 3"

// policy is repeated in the input of long until that is large enough to be offloaded.
const policy = "Flights of less than six hours are booked in economy."

// lead hands work to the analyst.
const lead = `{"kind": "AgentInstance", "name": "lead", "node_id": "agent", "node_version": "1",
	"parameters": {"system_message": "You hand work to others."}, "tools": [], "delegates": ["analyst"]}`

// takePlace makes the turns happen. All but alert have ended afterwards.
func (s *stack) takePlace(t *testing.T) {
	t.Helper()
	_, err := s.client.Apply(t.Context(), agent.ApplyRequest{
		Files: []agent.ManifestFile{{Name: "lead.json", Data: []byte(lead)}}, Publish: true, By: "pictures", Source: agent.SourceAPI,
	})
	require.NoError(t, err)
	s.ends(t, agent.TurnRequest{TurnID: flights, SessionID: "trip-1", Message: question})
	s.ends(t, agent.TurnRequest{TurnID: cheaper, SessionID: "trip-1", Message: "and the ones under $300?"})
	s.ends(t, agent.TurnRequest{TurnID: errand, SessionID: "desk-7", Agent: "lead", Message: "ask analyst: " + question})
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

// ends starts a turn and follows it to its end.
func (s *stack) ends(t *testing.T, r agent.TurnRequest) {
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

// startByHand starts long with a Temporal client that has dev's keys and blob store, and waits for its end. A turn that the gateway starts
// has only its id as input, which is never offloaded.
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
