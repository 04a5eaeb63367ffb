package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/workflows"
)

// With keys nobody who reads histories reads what was said; with the door of the keys he does. Large input is kept elsewhere.
func TestEncryptedHistories(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	s := start(t, func(c *app.Config) {
		c.Temporal.EncryptionKeys, c.Temporal.OffloadBytes = app.Secret("first:"+key), 4<<10
	})
	words := "sentinel-words " + strings.Repeat("and more of them ", 400)
	// Started by hand: the input of a turn that a door starts is its id.
	run, err := s.Temporal().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "turn/encrypted", TaskQueue: s.set.Temporal.TaskQueue},
		workflows.AgentTurnType, agent.TurnRequest{Message: words})
	require.NoError(t, err)
	var out agent.AgentStepOutput
	require.NoError(t, run.Get(t.Context(), &out))
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)

	h := s.history(run.GetID(), "")
	raw, err := proto.Marshal(h)
	require.NoError(t, err)
	require.False(t, bytes.Contains(raw, []byte("sentinel-words")), "the history tells")
	input := h.GetEvents()[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()[0]
	result := h.GetEvents()[len(h.GetEvents())-1].GetWorkflowExecutionCompletedEventAttributes().GetResult().GetPayloads()[0]
	require.Equal(t, "binary/encrypted", string(result.GetMetadata()["encoding"]))

	// The door decodes: what is encrypted, and what is kept elsewhere.
	body, err := protojson.Marshal(result)
	require.NoError(t, err)
	decoded := s.request("", http.MethodPost, "/codec/decode", `{"payloads":[`+string(body)+`]}`)
	require.Equal(t, http.StatusOK, decoded.status, "%s", decoded.body)
	var answer struct {
		Payloads []struct {
			Data []byte `json:"data"`
		} `json:"payloads"`
	}
	require.NoError(t, json.Unmarshal(decoded.body, &answer))
	require.Contains(t, string(answer.Payloads[0].Data), `"status":"completed"`)
	if body, err = protojson.Marshal(input); err == nil {
		fetched := s.request("", http.MethodPost, "/codec/download", `{"payloads":[`+string(body)+`]}`)
		require.Equal(t, http.StatusOK, fetched.status, "%s", fetched.body)
		require.NoError(t, json.Unmarshal(fetched.body, &answer))
		require.Contains(t, string(answer.Payloads[0].Data), "sentinel-words")
	}
}
