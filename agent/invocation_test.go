package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestInvocationParameter(t *testing.T) {
	t.Parallel()
	inv := agent.Invocation{Parameters: json.RawMessage(`{"rows":5,"big":9007199254740993,"name":"x","on":true,"none":null,"list":["a"],"half":0.5}`)}
	tests := []struct {
		name     string
		fallback any
		want     any
	}{
		{"rows", 100, 5},
		{"rows", int64(100), int64(5)},
		{"rows", nil, float64(5)},
		{"big", int64(0), int64(9007199254740993)},
		{"name", "y", "x"},
		{"name", 7, 7},
		{"on", false, true},
		{"none", "y", "y"},
		{"none", nil, nil},
		{"absent", "y", "y"},
		{"list", []string(nil), []string{"a"}},
		{"list", nil, []any{"a"}},
		{"half", 1, 1},
	}
	for _, tt := range tests {
		require.Equal(t, tt.want, inv.Parameter(tt.name, tt.fallback), "%s with %v", tt.name, tt.fallback)
	}
	require.Equal(t, 3, agent.Invocation{}.Parameter("rows", 3))
	require.Equal(t, 3, agent.Invocation{Parameters: json.RawMessage(`[1]`)}.Parameter("rows", 3))
}

func TestInvocationInput(t *testing.T) {
	t.Parallel()
	asked := []agent.Message{
		agent.UserText("first"),
		{Role: agent.RoleUser, Blocks: []agent.Block{
			{Type: agent.BlockText, Text: "no id"},
			{Type: agent.BlockFile, ID: "f1", Base64: "aGVsbG8=", MIMEType: "text/plain"},
			{Type: agent.BlockFile, ID: "bad", Base64: "a*", MIMEType: "text/plain"},
			{Type: agent.BlockImage, ID: "web", URL: "https://example.com/x.png"},
		}},
	}
	inv := agent.Invocation{
		Input: func(context.Context) ([]agent.Message, error) { return asked, nil },
		Open: func(_ context.Context, ref string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("stored as " + ref)), nil
		},
	}
	got, err := inv.InputData(t.Context(), 0)
	require.NoError(t, err)
	require.JSONEq(t, `{"role":"user","blocks":[{"type":"text","text":"first"}]}`, string(got))
	for _, index := range []int{-1, 2} {
		_, err = inv.InputData(t.Context(), index)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	}
	for id, want := range map[string]string{"f1": "hello", "cas://sha256:ab": "stored as cas://sha256:ab"} {
		r, err := inv.OpenBinary(t.Context(), id)
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		require.Equal(t, want, string(content))
	}
	for id, code := range map[string]agent.Code{"": agent.CodeNotFound, "f2": agent.CodeNotFound, "web": agent.CodeInvalid, "bad": agent.CodeInvalid} {
		_, err = inv.OpenBinary(t.Context(), id)
		require.Equal(t, code, agent.CodeOf(err), id)
	}
}

func TestInvocationWithoutInput(t *testing.T) {
	t.Parallel()
	var none agent.Invocation
	none.Report("nobody listens")
	_, err := none.InputData(t.Context(), 0)
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	for _, id := range []string{"x", "cas://sha256:ab"} {
		_, err = none.OpenBinary(t.Context(), id)
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	}
	away := errors.New("store is away")
	lost := agent.Invocation{Input: func(context.Context) ([]agent.Message, error) { return nil, away }}
	_, err = lost.InputData(t.Context(), 0)
	require.ErrorIs(t, err, away)
	_, err = lost.OpenBinary(t.Context(), "x")
	require.ErrorIs(t, err, away)
}
