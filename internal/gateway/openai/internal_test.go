package openai

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// FuzzParse checks that the runtime accepts every request that parse accepts, and that other requests are refused as invalid or not found, with a
// field of bounded length.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":"analyst:fast","messages":[{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"a","messages":[{"role":"developer","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":null,
			"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}`,
		`{"model":"a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
			{"type":"file","file":{"file_data":"aGk=","filename":"a.pdf"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]}]}`,
		`{"model":"a","messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"schema":{}}},"metadata":{"session_id":"s"}}`,
		`{"model":"a","messages":[{"role":"user","content":"x"}],"tools":[{}],"tool_choice":"none","n":1}`,
		`{"model":"\u0000","messages":null}`, `{}`, `[]`, ``, `{"model":"a","messages":[{"role":"assistant","refusal":"no"},null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parse(body)
		if err == nil && q.turn.SessionID != "" {
			err = q.dropKnownMessages()
		}
		if err == nil {
			require.NoError(t, q.turn.Validate(0))
			return
		}
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeNotFound}, e.Code)
		require.LessOrEqual(t, len(e.Field), 300)
	})
}

// TestAnswerTextAgainstAModel applies random tokens and resets to an answerText, and to a simple model that keeps every event.
func TestAnswerTextAgainstAModel(t *testing.T) {
	type event struct {
		producer string
		index    int64
		text     string
		isReset  bool
	}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 7))
		streamed, whole := answerText{isSent: true}, answerText{}
		var log []event
		var sent strings.Builder
		step := 1
		for index := int64(1); index <= 30; index++ {
			producer := fmt.Sprintf("model/%d", step)
			switch r.IntN(6) {
			case 0:
				step++
			case 1:
				from := 1 + r.Int64N(index)
				for i := range log {
					if log[i].producer == producer && log[i].index >= from {
						log[i].isReset = true
					}
				}
				streamed.reset(producer, from)
				whole.reset(producer, from)
			default:
				text := strings.Repeat("a", 1+r.IntN(3)) // one letter, so that text after a reset often equals the text before
				if r.IntN(12) == 0 {
					text = "b\n"
				}
				log = append(log, event{producer: producer, index: index, text: text})
				sent.WriteString(streamed.add(producer, index, text))
				whole.add(producer, index, text)
			}
		}
		want, last := "", ""
		for _, e := range log {
			if e.isReset {
				continue
			}
			if want != "" && e.producer != last {
				want += "\n\n"[min(2, len(want)-len(strings.TrimRight(want, "\n"))):]
			}
			want += e.text
			last = e.producer
		}
		require.False(t, whole.isUncertain, "seed %d", seed)
		require.Equal(t, want, whole.text(), "seed %d", seed)
		if streamed.isComplete() {
			require.Equal(t, want, sent.String(), "seed %d", seed)
		}
		if !streamed.isUncertain {
			require.True(t, strings.HasPrefix(sent.String(), streamed.text()), "seed %d", seed)
			require.Equal(t, want, streamed.text(), "seed %d", seed)
		}
	}
}

func TestAnswerTextIsBounded(t *testing.T) {
	s := answerText{isSent: true}
	megabyte := strings.Repeat("x", 1<<20)
	for i := range int64(20) {
		s.add("model/1", i+1, megabyte)
	}
	require.True(t, s.isUncertain)
	require.LessOrEqual(t, len(s.collected), maxText)
}

// A used-up budget has another code than a rate limit, and clients are told not to retry.
func TestBudgets(t *testing.T) {
	for bound, isBudget := range map[string]bool{
		agent.BoundRequestsPerMinute: false, agent.BoundConcurrentTurns: false, agent.BoundTokensPerMinute: false, agent.BoundDailyCost: true,
		agent.BoundMonthlyCost: true, agent.BoundDailyTokens: true, agent.BoundMonthlyTokens: true,
	} {
		refused := agent.AdmissionRefused{Kind: agent.BoundTenant, Name: "acme", Bound: bound}
		err := fmt.Errorf("admit: %w", &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 90 * time.Second, Err: refused})
		header, status, answer := http.Header{}, 0, problemBody{}
		require.Equal(t, err, refuse(header, func(s int, body any) { status, answer = s, body.(problemBody) }, err))
		if !isBudget {
			require.Zero(t, status, bound)
			continue
		}
		require.Equal(t, 429, status)
		require.Equal(t, []string{"insufficient_quota", "insufficient_quota"}, []string{answer.Error.Type, answer.Error.Code})
		require.Equal(t, "90", header.Get("Retry-After"))
		require.Equal(t, "false", header.Get("X-Should-Retry"))
	}
	require.False(t, isOverBudget(errors.New("x")))
}
