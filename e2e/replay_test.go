package e2e_test

import (
	"context"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	sdkworker "go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/workflows"
)

// recordDir is where histories for the replay corpus go; empty: nowhere. "task replay:record" sets it.
var recordDir = os.Getenv("TURNSTONE_RECORD_HISTORIES")

// history reads the history of one run.
func (s *system) history(workflowID, runID string) *historypb.History {
	s.t.Helper()
	h := &historypb.History{}
	it := s.Temporal().GetWorkflowHistory(context.Background(), workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		require.NoError(s.t, err)
		h.Events = append(h.Events, e)
	}
	return h
}

// replay replays a run against today's code, the proof that it is deterministic, and records it when asked to.
func (s *system) replay(name, workflowID, runID string) *historypb.History {
	s.t.Helper()
	h := s.history(workflowID, runID)
	replayer, err := sdkworker.NewWorkflowReplayerWithOptions(sdkworker.WorkflowReplayerOptions{})
	require.NoError(s.t, err)
	workflows.Register(replayer)
	require.NoError(s.t, replayer.ReplayWorkflowHistory(nil, h), "replay of %s", workflowID)
	if recordDir != "" && name != "" {
		raw, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(h)
		require.NoError(s.t, err)
		require.NoError(s.t, os.WriteFile(filepath.Join(recordDir, name+".json"), raw, 0o600))
	}
	return h
}

// runs lists the run ids of a chain of continued runs, the first first.
func (s *system) runs(workflowID string) []string {
	s.t.Helper()
	var ids []string
	for next := s.firstRun(workflowID); next != ""; {
		ids = append(ids, next)
		events := s.history(workflowID, next).GetEvents()
		next = events[len(events)-1].GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return ids
}

func (s *system) firstRun(workflowID string) string {
	s.t.Helper()
	return s.history(workflowID, "").GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetFirstExecutionRunId()
}

// size is what a history costs: events and bytes.
func size(h *historypb.History) (events, bytes int) { return len(h.GetEvents()), proto.Size(h) }
