//go:build unix

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/turnstone-run/turnstone/agent"
	turnstonev1 "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// ruledDoor sends a request through a door with a credential, and returns why it was refused; empty: it was not.
type ruledDoor struct {
	name string
	send func(t *testing.T, request map[string]any, origin string) (refused string)
}

// ruledDoors are the doors of a service at which a body says who sends it.
func (s *system) ruledDoors(key string) []ruledDoor {
	over := func(path, accept string, body func(request map[string]any) any) func(*testing.T, map[string]any, string) string {
		return func(t *testing.T, request map[string]any, origin string) string {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+path, bytes.NewReader([]byte(encode(t, body(request)))))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Accept", accept)
			if origin != "" {
				req.Header.Set("Origin", origin)
			}
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			var answer bytes.Buffer
			_, err = answer.ReadFrom(resp.Body)
			require.NoError(t, err)
			if resp.StatusCode == http.StatusOK {
				return ""
			}
			return answer.String()
		}
	}
	same := func(request map[string]any) any { return request }
	return []ruledDoor{
		{"http", over("/v1/turns", "application/json", same)},
		{"sse", over("/v1/turns", "text/event-stream", same)},
		{"chat", over("/api/chat", "application/json", same)},
		{"grpc", func(t *testing.T, request map[string]any, _ string) string { return s.invoke(t, key, request) }},
		{"websocket", func(t *testing.T, request map[string]any, origin string) string {
			return s.dial(t, key, request, origin)
		}},
	}
}

func (s *system) invoke(t *testing.T, key string, request map[string]any) string {
	t.Helper()
	conn, err := grpc.NewClient(s.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	var p turnstonev1.TurnRequest
	require.NoError(t, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal([]byte(encode(t, request)), &p))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
	if _, err = turnstonev1.NewAgentRuntimeClient(conn).Invoke(ctx, &p); err != nil {
		return err.Error()
	}
	return ""
}

func (s *system) dial(t *testing.T, key string, request map[string]any, origin string) string {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + key}}
	if origin != "" {
		header.Set("Origin", origin)
	}
	conn, _, err := websocket.Dial(t.Context(), "ws://"+s.HTTPAddr()+"/v1/ws", &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		return err.Error()
	}
	defer conn.CloseNow()
	require.NoError(t, wsjson.Write(t.Context(), conn, map[string]any{"type": "turn", "id": "a", "request": request}))
	for {
		var frame map[string]json.RawMessage
		require.NoError(t, wsjson.Read(t.Context(), conn, &frame))
		switch string(frame["type"]) {
		case `"error"`:
			return string(frame["error"])
		case `"done"`:
			return ""
		}
	}
}

// TestRulesOfDoors: at every door the credential says who sends a request, limits can only be lowered, no workflow is signalled for a caller, and
// pages of foreign sites are kept out.
func TestRulesOfDoors(t *testing.T) {
	t.Parallel()
	s := locked(t)
	_, key := s.as("acme", "ann", "turns.*", "tools.use:nothing")
	conn, err := pgx.Connect(t.Context(), s.set.Database.URL.Reveal())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for _, door := range s.ruledDoors(key) {
		t.Run(door.name, func(t *testing.T) {
			session := "rules-" + door.name
			request := func(more map[string]any) map[string]any {
				r := map[string]any{"message": "say 2 words", "session_id": session}
				maps.Copy(r, more)
				return r
			}
			require.Contains(t, door.send(t, request(map[string]any{"context": map[string]any{"tenant": "globex"}}), ""), "globex")
			if door.name != "grpc" { // whose messages have no such field
				require.Contains(t, door.send(t, request(map[string]any{"stream_to": map[string]any{"workflow_id": "w", "signal": "s"}}), ""), "stream_to")
				require.NotEmpty(t, door.send(t, request(nil), "https://evil.example"), "a page of a foreign site")
			}
			limits := map[string]any{"model_calls": 1_000_000, "tools": []string{"execute_pipeline"}}
			claims := map[string]any{"user_id": "root", "user_role": "admin", "flags": map[string]any{"beta": true}, "ui_page": "/desk"}
			said := request(map[string]any{"context": claims})
			if door.name == "http" || door.name == "sse" || door.name == "websocket" {
				said["limits"] = limits
			}
			require.Empty(t, door.send(t, said, ""))
			var raw []byte
			var tenant, user, recorded string
			require.NoError(t, conn.QueryRow(t.Context(),
				`SELECT tenant, user_id, context, coalesce(limits::text, '') FROM turns WHERE session_id = $1`, session).Scan(&tenant, &user, &raw, &recorded))
			require.Equal(t, "acme ann", fmt.Sprint(tenant, " ", user), "one turn, and the credential's")
			var kept map[string]any
			require.NoError(t, json.Unmarshal(raw, &kept))
			require.Equal(t, "ann", kept["user_id"])
			require.NotContains(t, kept, "user_role")
			require.NotContains(t, kept, "flags")
			require.Equal(t, "/desk", kept["ui_page"], "what is no claim stays")
			require.NotContains(t, recorded, "execute_pipeline", "a request cannot widen what the credential allows")
		})
	}
}

// A gateway that is told to stop ends its streams behind a whole event, and whoever resumes elsewhere misses nothing.
func TestStreamsResumeElsewhere(t *testing.T) {
	t.Parallel()
	binary := build(t, "../worker")
	b := newBench(t)
	env := []string{"TURNSTONE_SHUTDOWN_TIMEOUT=10s"}
	first, second := b.spawn(binary, freeAddr(t), env), b.spawn(binary, freeAddr(t), env)
	receipt, err := first.door.Start(t.Context(), agent.TurnRequest{Message: "say 150 words slowly"})
	require.NoError(t, err)
	resp, err := http.Get("http://" + first.addr + "/v1/turns/" + string(receipt.TurnID) + "/events")
	require.NoError(t, err)
	defer resp.Body.Close()
	b.awaitText(receipt.TurnID, "word3")
	stopped := make(chan struct{})
	go func() { defer close(stopped); first.end(syscall.SIGTERM) }()
	var seen bytes.Buffer
	_, err = seen.ReadFrom(resp.Body)
	require.NoError(t, err, "the stream ends in order")
	require.True(t, bytes.HasSuffix(seen.Bytes(), []byte("\n\n")), "behind a whole event")
	last := lastEventID(t, seen.Bytes())
	resumed := last
	for e, err := range second.door.Follow(t.Context(), receipt.TurnID, last) {
		require.NoError(t, err)
		require.Equal(t, resumed+1, e.Meta.EventIndex, "contiguous: the process gave the stream up in order")
		resumed++
	}
	require.Greater(t, resumed, last)
	select {
	case <-stopped:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the gateway does not stop")
	}
	require.True(t, first.cmd.ProcessState.Success(), "%s", first.cmd.ProcessState)
}

var eventID = regexp.MustCompile(`(?m)^id: ([0-9]+)$`)

// lastEventID is where to resume a stream of which this was seen.
func lastEventID(t *testing.T, seen []byte) int64 {
	t.Helper()
	ids := eventID.FindAllSubmatch(seen, -1)
	require.NotEmpty(t, ids)
	n, err := strconv.ParseInt(string(ids[len(ids)-1][1]), 10, 64)
	require.NoError(t, err)
	return n
}
