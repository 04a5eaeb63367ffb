package workflows_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkworker "go.temporal.io/sdk/worker"

	"github.com/turnstone-run/turnstone/workflows"
)

// shipped are the histories that the corpus must hold, whatever else it holds (docs/determinism.md says how they are recorded).
var shipped = []string{
	"simple_turn", "tool_turn", "parallel_tools", "retried_model_call", "cancelled_turn", "queued_turn", "turn_continued_1",
	"turn_continued_2", "turn_with_updates", "conversation", "conversation_continued_1", "conversation_continued_2",
	"process_continued_1", "process_continued_2", "process_with_pause", "process_cancelled", "process_reset",
	"process_strict_continued_1", "process_strict_continued_2", "process_strict_with_pause", "process_strict_cancelled", "process_strict_reset",
	"scheduled_run", "scheduled_heartbeat", "scheduled_pause", "scheduled_cancelled", "retention", "erasure",
	"tool_turn.v3", "retried_model_call_local.v3", "turn_continued_2.v3", "tool_turn_indexed.v3", "turn_with_updates_indexed.v3",
	"defined_run", "defined_condition", "defined_agent", "defined_timer_continued_1", "defined_timer_continued_2", "defined_cancelled",
}

// TestReplay holds today's code against the histories of every version that was shipped.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/replay/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files, "an empty corpus proves nothing")
	names := make([]string, 0, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		names = append(names, name)
		t.Run(name, func(t *testing.T) {
			replayer := sdkworker.NewWorkflowReplayer()
			workflows.Register(replayer)
			require.NoError(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
	for _, name := range shipped {
		require.True(t, slices.Contains(names, name), "the corpus lacks %s", name)
	}
}
