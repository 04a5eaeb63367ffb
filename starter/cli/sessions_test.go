package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestSessions(t *testing.T) {
	b := setup(t)
	b.rt.Script = says("hello")
	for _, message := range []string{"hi\x1b[2J", "and now?", "thanks"} {
		require.Equal(t, 0, b.run(noInput(), "chat", "-s", "trip-1", message))
	}
	b.show(0, "sessions", "messages", "trip-1", "--limit", "2")
	golden(t, "sessions_messages", b.screen.String())
	messages := answer[[]agent.Message](b, "sessions", "messages", "trip-1")
	require.Len(t, messages, 3)

	b.show(0, "sessions", "export", "trip-1")
	var export agent.SessionExport
	require.NoError(t, json.Unmarshal([]byte(b.screen.out()), &export))
	require.Len(t, export.Turns, 3)
	require.Equal(t, agent.SessionID("trip-1"), export.SessionID)

	b.refuses("", map[string]string{
		"no session":        "sessions export unknown",
		"no session id":     "sessions delete a/b --yes",
		"is no session id":  "sessions messages a/b",
		"--limit is -1":     "sessions messages trip-1 --limit -1",
		`no session "none"`: "sessions delete none --yes",
	})
}

func TestSessionDeleteAsksFirst(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-1", "x"))
	require.Equal(t, exitUsage, b.run(noInput(), "sessions", "delete", "trip-1", "--yes"), "a turn runs")
	b.rt.Say("turn-1", "done")
	for _, typed := range []string{"", "\n", "n\n", "yep\n"} {
		b.screen = &terminal{}
		require.Equal(t, exitUsage, b.run(strings.NewReader(typed), "sessions", "delete", "trip-1"), typed)
		require.Contains(t, b.screen.String(), "[y/N]")
		require.Contains(t, b.screen.String(), "nothing was done")
	}
	in, typing := io.Pipe()
	defer typing.Close()
	b.screen = &terminal{}
	exited := make(chan int, 1)
	go func() { exited <- b.run(in, "sessions", "delete", "trip-1") }()
	require.Eventually(t, func() bool { return strings.Contains(b.screen.String(), "[y/N]") }, 5*time.Second, time.Millisecond)
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-exited)
	require.Equal(t, 0, b.run(noInput(), "sessions", "export", "trip-1"), "the session still exists")

	b.showInput("y\n", 0, "sessions", "delete", "trip-1")
	require.Equal(t, "deleted session trip-1: 1 turn, 1 message, 0 blobs\n", b.screen.out())
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-2", "x"))
	b.rt.Say("turn-1", "done")
	b.show(0, "sessions", "delete", "trip-2", "--yes", "-o", "json")
	require.JSONEq(t, `{"session_id":"trip-2","turns":1,"messages":1,"blobs":0}`, b.screen.out())
}

func TestBlockLines(t *testing.T) {
	for want, block := range map[string]agent.Block{
		"text":                   agent.Text("text\n"),
		"[reasoning] so be it":   {Type: agent.BlockReasoning, Reasoning: "so\nbe it"},
		`→ send_mail {"to":"x"}`: {Type: agent.BlockToolCall, Name: "send_mail", Args: json.RawMessage(`{"to":"x"}`)},
		"✓ [1] cas://sha256:0":   {Type: agent.BlockToolResult, Output: json.RawMessage(`[1]`), Ref: "cas://sha256:0"},
		`✗ "no"`:                 {Type: agent.BlockToolResult, Status: agent.ResultError, Output: json.RawMessage(`"no"`)},
		"[image] image/png u":    {Type: agent.BlockImage, MIMEType: "image/png", URL: "u"},
		"[audio]":                {Type: agent.BlockAudio},
		"[non_standard]":         {Type: agent.BlockNonStandard},
	} {
		require.Equal(t, want, blockLine(&block))
	}
}
