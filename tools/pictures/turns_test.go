package pictures_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// The turns that the pictures show.
const (
	flights = agent.TurnID("flights-1") // one tool
	cheaper = agent.TurnID("flights-2") // the same session
	errand  = agent.TurnID("errand-1")  // a sub-agent's turn in it
	alert   = agent.TurnID("alert-1")   // waits for a person
)

const question = "fetch flights from NYC to LAX, sort by price, show top 3"

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
