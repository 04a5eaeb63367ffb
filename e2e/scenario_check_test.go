package e2e_test

import (
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// cancelTime is how long a turn may go on that was told to stop: the model call a second, and the rest of the turn.
const cancelTime = 5 * time.Second

// What two runs differ in.
var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	took  = regexp.MustCompile(`"ms":[0-9]+`) // how long the steps of a pipeline took
)

// steady is a line without what two runs differ in.
func steady(line string) string {
	return took.ReplaceAllString(uuids.ReplaceAllString(line, "<id>"), `"ms":0`)
}

// checked is what is compared between the two drivers.
type checked struct {
	Refusal    string
	Lines      []string
	Status     agent.TurnStatus
	Stop       agent.StopReason
	Output     string
	Structured string
	Failure    string
	Tools      []string
	Usage      agent.Usage
	Model      string
	Transcript []string
	Requests   int
}

// check holds every turn of a run against what was expected, and against what is true of every turn.
func (s *stage) check(r *run, sc *scenario) []checked {
	t := s.t
	t.Helper()
	var out []checked
	for _, p := range r.turns {
		out = append(out, s.checkTurn(r, p, &p.form.Expect))
		for _, a := range p.aside {
			out = append(out, s.checkTurn(r, a.played, a.want))
		}
	}
	s.checkTranscript(r)
	effects := s.desk.of(r.tenant)
	if want := sc.Expect.Effects; want != nil {
		require.Equal(t, want, effects, "effects")
		return out
	}
	want := map[string]int{}
	for _, c := range out {
		for _, note := range c.Tools {
			if slices.Contains([]string{"send", "pay", "flaky"}, note) {
				want[note]++
			}
		}
	}
	require.Equal(t, want, effects, "effects, one for each call that went well")
	return out
}

func (s *stage) checkTurn(r *run, p *played, want *expectation) checked {
	t := s.t
	t.Helper()
	if want.Refused != "" || p.refusal != nil {
		require.Error(t, p.refusal)
		require.NotEmpty(t, want.Refused, "the request was refused: %v", p.refusal)
		require.ErrorContains(t, p.refusal, want.Refused)
		require.ErrorContains(t, p.refusal, want.Field)
		return checked{Refusal: p.refusal.Error()}
	}
	events := p.stream.all()
	out := s.checkStream(events)
	lines := compact(events)
	s.checkOutput(p, out, want)
	s.checkRequests(p, want)
	if want.Events != nil {
		require.Equal(t, ordered(want.Events), lines, "events")
	}
	messages := s.messagesOf(r, p)
	var transcript, said []string
	for i := range messages {
		transcript = append(transcript, steady(written(&messages[i])))
		if messages[i].Role == agent.RoleAssistant && i >= len(p.request.Input()) {
			said = append(said, agent.Normalize(messages[i].Blocks))
		}
	}
	if want.Transcript != nil {
		requireLines(t, want.Transcript, transcript)
	}
	require.Equal(t, strings.Join(said, ""), streamtest.Shown(events), "text is shown once, as it is stored")
	s.checkStored(r, out)
	s.checkRun(r, p, out, want)
	s.checkWords(r, p, out, want)
	if p.stopTook > 0 {
		require.Less(t, p.stopTook, cancelTime)
	}
	c := checked{
		Lines: compact(lasting(events)), Status: out.Status, Stop: out.StopReason, Output: out.Output, Structured: string(out.Structured), Tools: notes(out),
		Model: out.Model, Transcript: transcript, Requests: len(p.asked),
	}
	if out.Model != offline.ModelName { // it counts the digits of how long steps took
		c.Usage = out.Usage
	}
	if out.Error != nil {
		c.Failure = steady(out.Error.Type + ": " + out.Error.Message)
	}
	return c
}

// checkStream checks that the events are contiguous, that one of them is terminal, the last, and that every tool that began has ended,
// in that order, unless the turn was cut short.
func (s *stage) checkStream(events []agent.Event) *agent.AgentStepOutput {
	t := s.t
	t.Helper()
	require.NotEmpty(t, events)
	open := map[agent.CallID]int{}
	for i := range events {
		e := &events[i]
		require.True(t, isNext(lastIndex(events[:i]), e), "event %d behind %d", e.Meta.EventIndex, lastIndex(events[:i]))
		require.Equal(t, i == len(events)-1, e.Terminal(), "one terminal event, the last: %s", eventLine(e))
		switch e.Type {
		case agent.EventToolStart:
			open[e.ToolCallID]++
		case agent.EventToolEnd:
			require.Positive(t, open[e.ToolCallID], "tool_end %s without its start", e.ToolName)
			delete(open, e.ToolCallID)
		default:
		}
	}
	out := events[len(events)-1].Result
	require.NotNil(t, out)
	if out.Status == agent.TurnCompleted {
		require.Empty(t, open, "tools that began and did not end")
	}
	return out
}

// messagesOf are the messages of a turn in its session's transcript.
func (s *stage) messagesOf(r *run, p *played) []client.Message {
	var own []client.Message
	for _, m := range s.transcript(r, p.receipt.SessionID) {
		if m.TurnID == p.receipt.TurnID {
			own = append(own, m)
		}
	}
	return own
}

func (s *stage) transcript(r *run, session agent.SessionID) []client.Message {
	s.t.Helper()
	page, err := r.client.Messages(s.t.Context(), session, 0, 200)
	require.NoError(s.t, err)
	require.False(s.t, page.More)
	return page.Messages
}

// checkTranscript checks of every session, and of the sessions of child turns, that each call has one result, right behind it, and that
// there is no result without a call.
func (s *stage) checkTranscript(r *run) {
	t := s.t
	t.Helper()
	sessions := map[agent.SessionID]bool{}
	for _, p := range r.turns {
		if p.refusal != nil {
			continue
		}
		sessions[p.receipt.SessionID] = true
		for _, child := range childrenOf(p.stream.all()) {
			sessions[agent.SessionID(child)] = true
		}
	}
	for session := range sessions {
		messages := s.transcript(r, session)
		for i := range messages {
			var results []string
			for _, b := range messages[i].Blocks {
				if b.Type == agent.BlockToolResult {
					results = append(results, string(b.ToolCallID))
				}
			}
			var calls []string
			if i > 0 {
				for _, c := range agent.ToolCalls(messages[i-1].Blocks) {
					calls = append(calls, string(c.ID))
				}
			}
			require.ElementsMatch(t, calls, results, "results of message %d of session %s answer the calls before", i, session)
		}
		if n := len(messages); n > 0 {
			require.Empty(t, agent.ToolCalls(messages[n-1].Blocks), "session %s ends with calls", session)
		}
	}
}

// checkStored checks that the result that is stored is the one that was shown.
func (s *stage) checkStored(r *run, out *agent.AgentStepOutput) {
	t := s.t
	t.Helper()
	view, err := r.client.Result(t.Context(), out.ResultRef)
	require.NoError(t, err)
	defer view.Body.Close()
	body, err := io.ReadAll(view.Body)
	require.NoError(t, err)
	var stored struct {
		Output     string          `json:"output"`
		Structured json.RawMessage `json:"structured"`
	}
	require.NoError(t, json.Unmarshal(body, &stored))
	require.Equal(t, out.Output, stored.Output, "the stored output")
	require.Equal(t, len(out.Structured) > 0 && string(out.Structured) != "null", len(stored.Structured) > 0, "structured is stored")
	turn, err := r.client.Turn(t.Context(), out.TurnID)
	require.NoError(t, err)
	require.JSONEq(t, encode(t, out), encode(t, turn.Output), "the door says what the stream ended with")
}

// checkWords looks for words in everything that is kept of a turn.
func (s *stage) checkWords(r *run, p *played, out *agent.AgentStepOutput, want *expectation) {
	t := s.t
	t.Helper()
	events := flat(encode(t, p.stream.all()))
	for _, words := range want.Shows {
		require.Contains(t, events, words, "events")
	}
	kept := map[string]string{
		"events": events, "result": flat(encode(t, out)), "transcript": flat(encode(t, s.messagesOf(r, p))),
	}
	if s.exists(p.receipt.TurnID) {
		kept["history"] = s.history(p.receipt.TurnID.WorkflowID(), "").String() // JSON would have payloads in base64
	}
	for _, words := range append([]string{scenarioKey}, want.Hidden...) {
		for where, text := range kept {
			require.NotContains(t, text, words, where)
		}
	}
}

func notes(out *agent.AgentStepOutput) []string {
	list := []string{}
	for _, c := range out.ToolCalls {
		if c.Status == agent.ResultSuccess {
			list = append(list, c.Tool)
			continue
		}
		list = append(list, c.Tool+" "+c.Status)
	}
	return list
}

// ordered puts the lines of parallel tools into the order that compact gives them.
func ordered(lines []string) []string {
	out := slices.Clone(lines)
	for i := 0; i < len(out); {
		j := i
		for j < len(out) && strings.HasPrefix(out[j], "tool_") {
			j++
		}
		slices.Sort(out[i:j])
		i = max(j, i+1)
	}
	return out
}
