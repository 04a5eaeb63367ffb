//go:build unix

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/job"
	turnstonev1 "github.com/turnstone-run/turnstone/proto/turnstone/v1"
	"github.com/turnstone-run/turnstone/workflows"
)

// everyDoor is a service with all ways in open.
type everyDoor struct {
	*system
	bot   *telegramtest.API
	redis string
}

// through sends the main job through every door, and says which turn it became.
func (d *everyDoor) through() map[string]func(t *testing.T) agent.TurnID {
	return map[string]func(t *testing.T) agent.TurnID{
		"starter": d.throughStarter, "http": d.throughHTTP, "sse": d.throughSSE, "grpc": d.throughGRPC, "websocket": d.throughSocket,
		"openai": d.throughOpenAI, "chat": d.throughChat, "telegram": d.throughTelegram, "schedule": d.throughSchedule, "jobs": d.throughJobs,
		"temporal": d.throughTemporal,
	}
}

// The same message through every door gives the same stored result.
func TestSameTurnThroughEveryDoor(t *testing.T) {
	t.Parallel()
	d := &everyDoor{bot: telegramtest.New(t)}
	d.redis = startRedis(t).url
	d.system = start(t, nothingRemembered, func(c *app.Config) {
		c.Jobs.RedisURL = app.Secret(d.redis)
		c.Telegram.Token, c.Telegram.APIURL, c.Telegram.Unlinked = app.Secret(telegramtest.Token()), d.bot.URL(), true
	})
	results, outputs := map[string]string{}, map[string]string{}
	doors := d.through()
	require.GreaterOrEqual(t, len(doors), 8)
	for door, send := range doors {
		id := send(t)
		require.NotEmpty(t, id, door)
		out, events := d.follow(t.Context(), id)
		require.Equal(t, agent.TurnCompleted, out.Status, "%s: %+v", door, out.Error)
		require.NotEmpty(t, events)
		results[door], outputs[door] = string(d.get("/v1/results/"+string(id))), alike(t, *out)
		d.replay("", d.workflowOf(id), "")
	}
	for door := range results {
		require.JSONEq(t, results["http"], results[door], door)
		require.JSONEq(t, outputs["http"], outputs[door], door)
	}
}

// workflowOf is the workflow that drove a turn.
func (d *everyDoor) workflowOf(id agent.TurnID) string {
	return d.asked(`SELECT workflow_id FROM turns WHERE turn_id = $1`, string(id))
}

// asked is the one value that a query answers, once it does.
func (d *everyDoor) asked(sql string, args ...any) (value string) {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.set.Database.URL.Reveal())
	require.NoError(d.t, err)
	defer conn.Close(context.Background())
	require.Eventually(d.t, func() bool { return conn.QueryRow(d.t.Context(), sql, args...).Scan(&value) == nil && value != "" },
		30*time.Second, 20*time.Millisecond, sql)
	return value
}

// turnOf is the turn that came by a channel.
func (d *everyDoor) turnOf(channel string) agent.TurnID {
	return agent.TurnID(d.asked(`SELECT turn_id FROM turns WHERE channel = $1 ORDER BY created_at DESC LIMIT 1`, channel))
}

func (d *everyDoor) throughStarter(t *testing.T) agent.TurnID {
	binary := filepath.Join(t.TempDir(), "starter")
	build := exec.Command("go", "build", "-o", binary, "../starter")
	build.Stderr = os.Stderr
	require.NoError(t, build.Run())
	shown, err := exec.Command(binary, "chat", mainJob, "--server", "http://"+d.HTTPAddr(), "--session", "by-cli").CombinedOutput()
	require.NoError(t, err, "%s", shown)
	require.Contains(t, string(shown), "execute_pipeline")
	page, err := d.client.Messages(t.Context(), "by-cli", 0, 100)
	require.NoError(t, err)
	require.Len(t, page.Messages, 4)
	return page.Messages[0].TurnID
}

// posted sends JSON, and returns the turn that the answer is about.
func (d *everyDoor) posted(t *testing.T, path, accept string, body any) (id agent.TurnID, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.HTTPAddr()+path, strings.NewReader(encode(t, body)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var read strings.Builder
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		read.WriteString(lines.Text() + "\n")
	}
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", read.String())
	return agent.TurnID(resp.Header.Get("Turnstone-Turn-Id")), read.String()
}

func (d *everyDoor) throughHTTP(t *testing.T) agent.TurnID {
	id, answer := d.posted(t, "/v1/turns", "", map[string]any{"message": mainJob})
	require.Contains(t, answer, `"status":"completed"`)
	return id
}

func (d *everyDoor) throughSSE(t *testing.T) agent.TurnID {
	id, answer := d.posted(t, "/v1/turns", "text/event-stream", map[string]any{"message": mainJob})
	require.Contains(t, answer, "event: tool_start")
	require.Contains(t, answer, `"COMPLETED"`)
	return id
}

func (d *everyDoor) throughGRPC(t *testing.T) agent.TurnID {
	conn, err := grpc.NewClient(d.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	out, err := turnstonev1.NewAgentRuntimeClient(conn).Invoke(t.Context(), &turnstonev1.TurnRequest{Message: mainJob})
	require.NoError(t, err)
	return agent.TurnID(out.GetTurnId())
}

func (d *everyDoor) throughSocket(t *testing.T) agent.TurnID {
	conn, _, err := websocket.Dial(t.Context(), "ws://"+d.HTTPAddr()+"/v1/ws", nil)
	require.NoError(t, err)
	defer conn.CloseNow()
	conn.SetReadLimit(8 << 20)
	require.NoError(t, wsjson.Write(t.Context(), conn, map[string]any{"type": "turn", "id": "a", "request": map[string]any{"message": mainJob}}))
	var id agent.TurnID
	for index := int64(0); ; {
		var frame struct {
			Type   string       `json:"type"`
			ID     string       `json:"id"`
			TurnID agent.TurnID `json:"turn_id"`
			Event  *agent.Event `json:"event"`
			Error  any          `json:"error"`
		}
		require.NoError(t, wsjson.Read(t.Context(), conn, &frame))
		require.Nil(t, frame.Error)
		require.Equal(t, "a", frame.ID)
		switch frame.Type {
		case "accepted":
			id = frame.TurnID
		case "event":
			index++
			require.Equal(t, index, frame.Event.Meta.EventIndex)
		case "done":
			return id
		}
	}
}

func (d *everyDoor) throughOpenAI(t *testing.T) agent.TurnID {
	id, answer := d.posted(t, "/v1/chat/completions", "", map[string]any{
		"model": "analyst", "messages": []any{map[string]any{"role": "user", "content": mainJob}},
	})
	require.Contains(t, answer, `"finish_reason":"stop"`)
	return id
}

func (d *everyDoor) throughChat(t *testing.T) agent.TurnID {
	offer, err := d.client.OfferLink(t.Context(), agent.Link{Chat: agent.Chat{Channel: "telegram"}, UserID: "ann"})
	require.NoError(t, err)
	d.bot.Send(9, "/link "+offer.Code)
	d.bot.AwaitMessage(9, "ann")
	_, answer := d.posted(t, "/api/chat", "", map[string]any{"message": mainJob, "session_id": "by-chat", "user_id": "ann"})
	d.bot.AwaitMessage(9, "Found 3 rows") // a copy
	var said struct {
		TurnID agent.TurnID `json:"turn_id"`
		Tool   string       `json:"tool_name"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &said))
	require.Equal(t, "execute_pipeline", said.Tool)
	return said.TurnID
}

func (d *everyDoor) throughTelegram(t *testing.T) agent.TurnID {
	d.bot.Send(7, mainJob)
	id := d.turnOf("telegram")
	out, _ := d.follow(t.Context(), id)
	first, _, _ := strings.Cut(out.Output, "\n")
	d.bot.AwaitMessageWhere(7, "the answer", func(m telegramtest.Message) bool { return strings.Contains(m.Text, strings.TrimSpace(first)) })
	return id
}

func (d *everyDoor) throughSchedule(t *testing.T) agent.TurnID {
	_, err := d.client.CreateSchedule(t.Context(), &agent.Schedule{Name: "by-clock", Message: mainJob, Every: "24h"})
	require.NoError(t, err)
	_, err = d.client.TriggerSchedule(t.Context(), "by-clock")
	require.NoError(t, err)
	return d.turnOf(agent.ScheduleRuns)
}

func (d *everyDoor) throughJobs(t *testing.T) agent.TurnID {
	producer, err := jobs.NewClient(jobs.ClientConfig{URL: d.redis})
	require.NoError(t, err)
	defer producer.Close()
	require.NoError(t, producer.Push(t.Context(), job.Job{JobID: "by-job", RunID: "r", NodeID: "n", Prompt: mainJob}))
	result, err := producer.Wait(t.Context(), "by-job")
	require.NoError(t, err)
	require.Equal(t, "completed", string(result.Status))
	return job.TurnID("", "by-job", 0)
}

// throughTemporal sends the payload that the temporal command line sends.
func (d *everyDoor) throughTemporal(t *testing.T) agent.TurnID {
	run, err := d.Temporal().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "by-hand", TaskQueue: d.set.Temporal.TaskQueue},
		workflows.AgentTurnType, json.RawMessage(`{"agent":"analyst","message":"`+mainJob+`"}`))
	require.NoError(t, err)
	var out agent.AgentStepOutput
	require.NoError(t, run.Get(t.Context(), &out))
	require.Equal(t, run.GetRunID(), string(out.TurnID), "a turn started by hand is named after its first run")
	require.Equal(t, out.TurnID, agent.TurnID(out.SessionID))
	return out.TurnID
}
