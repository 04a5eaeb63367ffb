package e2e_test

import (
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// checkOutput holds the result of a turn against what was expected of it.
func (s *stage) checkOutput(p *played, out *agent.AgentStepOutput, want *expectation) {
	t := s.t
	t.Helper()
	status := cmp.Or(want.Status, agent.TurnCompleted)
	require.Equal(t, status, out.Status, "stop %s, error %+v, output %q", out.StopReason, out.Error, out.Output)
	stop := want.Stop
	switch {
	case stop != "":
	case status == agent.TurnCompleted:
		stop = agent.StopEndTurn
	case status == agent.TurnCancelled:
		stop = agent.StopCancelled
	}
	require.Equal(t, stop, out.StopReason, "%+v", out.Error)
	if want.Error == nil {
		require.Equal(t, status == agent.TurnFailed, out.Error != nil, "%+v", out.Error)
	} else {
		require.NotNil(t, out.Error)
		require.Equal(t, cmp.Or(want.Error.Type, out.Error.Type), out.Error.Type)
		require.Contains(t, out.Error.Message, want.Error.Message)
		if want.Error.Retryable != nil {
			require.Equal(t, *want.Error.Retryable, out.Error.Retryable, "retryable")
		}
	}
	if text, ok := wantedText(p, want); ok {
		require.Equal(t, text, out.Output)
	}
	for _, words := range want.Contains {
		require.Contains(t, out.Output, words)
	}
	if want.Structured == nil {
		require.Contains(t, []string{"", "null"}, string(out.Structured), "nothing structured was expected")
	} else {
		require.JSONEq(t, string(want.Structured), string(out.Structured))
		require.JSONEq(t, string(want.Structured), out.Output, "the output is the structured answer")
	}
	if want.Tools != nil {
		require.Equal(t, want.Tools, notes(out))
	}
	if want.Cost > 0 {
		require.InDelta(t, want.Cost, out.Usage.CostUSD, 1e-9)
	}
	if u, ok := wantedUsage(p, want); ok {
		checkUsage(t, u, out.Usage, p.form.cutOff() || want.Usage != nil && want.Usage.Estimated)
	}
	if want.Model != "" {
		require.Equal(t, want.Model, out.Model)
	}
	requireSubsets(t, want.Blocks, out.Blocks, "blocks")
	var pending any
	if len(p.pending) > 0 {
		pending = p.pending[0]
	}
	requireSubsets(t, want.Pending, pending, "pending")
}

// wantedText is what the turn says if nothing else is expected: the text of the last reply.
func wantedText(p *played, want *expectation) (string, bool) {
	switch n := len(p.form.Model); {
	case want.Output != nil:
		return *want.Output, true
	case len(want.Contains) > 0, n == 0, len(p.aside) > 0, cmp.Or(want.Status, agent.TurnCompleted) != agent.TurnCompleted, want.Structured != nil:
		return "", false
	default:
		last := &p.form.Model[n-1]
		return last.text(), last.answers() && len(last.Calls) == 0
	}
}

// checkUsage compares the usage of a turn with the sum of its complete replies. If a reply was cut off, the usage is higher and estimated.
func checkUsage(t *testing.T, want, got agent.Usage, cutOff bool) {
	t.Helper()
	require.Equal(t, cutOff, got.Estimated, "a reply was cut off: %+v", got)
	if cutOff {
		require.Greater(t, got.InputTokens, want.InputTokens)
		require.GreaterOrEqual(t, got.OutputTokens, want.OutputTokens)
		return
	}
	want.CostUSD, want.Unpriced = got.CostUSD, got.Unpriced
	require.Equal(t, want, got)
}

// cutOff reports whether a reply begins and does not come whole.
func (f *turnForm) cutOff() bool {
	for _, list := range f.scripts() {
		if slices.ContainsFunc(list, func(r reply) bool { return r.Cut || r.Hold }) {
			return true
		}
	}
	return false
}

// wantedUsage is what the replies that came whole say.
func wantedUsage(p *played, want *expectation) (agent.Usage, bool) {
	var u agent.Usage
	switch {
	case want.Usage != nil:
		r := reply{Usage: want.Usage}
		return r.usage(), true
	case len(p.aside) > 0 || len(p.form.Model) == 0:
		return u, false
	}
	for _, list := range p.form.scripts() {
		for i := range list {
			if list[i].answers() {
				u = u.Add(list[i].usage())
			}
		}
	}
	return u, true
}

// scripts are all queues of replies.
func (f *turnForm) scripts() [][]reply {
	all := [][]reply{f.Model}
	for _, list := range f.Models {
		all = append(all, list)
	}
	return all
}

// checkRequests checks that the provider was asked as often as the script has replies, unless another number is expected.
func (s *stage) checkRequests(p *played, want *expectation) {
	t := s.t
	t.Helper()
	if p.form.Model == nil && p.form.Models == nil && want.Requests == nil {
		return // a turn beside another
	}
	n := 0
	for _, list := range p.form.scripts() {
		n += len(list)
	}
	if want.Requests != nil {
		n = *want.Requests
	}
	require.Equal(t, n, len(p.asked), "requests to the provider") //nolint:testifylint // Len would print them
	for _, sight := range want.Sees {
		i := len(p.asked) - 1
		if sight.Request > 0 {
			i = sight.Request - 1
		}
		require.Less(t, i, len(p.asked), "there is no request %d", sight.Request)
		sight.check(t, &p.asked[i])
	}
}

func (g *sight) check(t *testing.T, a *asked) {
	t.Helper()
	text := flat(a.body)
	for _, words := range g.Has {
		require.Contains(t, text, words, "request %d", g.Request)
	}
	for _, words := range g.Not {
		require.NotContains(t, text, words, "request %d", g.Request)
	}
	var body struct {
		Messages []struct {
			Role string `json:"role"`
		} `json:"messages"`
		Tools []struct {
			Name     string `json:"name"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
		ResponseFormat json.RawMessage `json:"response_format"`
		OutputConfig   struct {
			Format json.RawMessage `json:"format"`
		} `json:"output_config"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &body))
	if g.Roles != nil {
		var roles []string
		for _, m := range body.Messages {
			roles = append(roles, m.Role)
		}
		require.Equal(t, g.Roles, roles, "request %d", g.Request)
	}
	if g.Tools != nil {
		names := []string{}
		for _, tool := range body.Tools {
			names = append(names, cmp.Or(tool.Name, tool.Function.Name))
		}
		require.Equal(t, g.Tools, names, "request %d", g.Request)
	}
	if g.Schema != nil {
		require.Equal(t, *g.Schema, len(body.ResponseFormat) > 0 || len(body.OutputConfig.Format) > 0, "request %d: a schema for the provider", g.Request)
	}
}

func requireLines(t *testing.T, want, got []string) {
	t.Helper()
	same := len(want) == len(got)
	for i := 0; same && i < len(want); i++ {
		same = sameLine(want[i], got[i])
	}
	if !same {
		require.Equal(t, want, got)
	}
}

// requireSubsets checks that the objects of a list have what is wanted of them.
func requireSubsets(t *testing.T, want []map[string]any, got any, what string) {
	t.Helper()
	if want == nil {
		return
	}
	var objects, wanted []any
	require.NoError(t, json.Unmarshal([]byte(encode(t, got)), &objects))
	require.NoError(t, json.Unmarshal([]byte(encode(t, want)), &wanted))
	if !within(wanted, objects) {
		require.Equal(t, wanted, objects, what)
	}
}

// within reports whether got has every field that want has, and as many elements.
func within(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		for field, v := range want {
			ok = ok && within(v, object[field])
		}
		return ok
	case []any:
		list, ok := got.([]any)
		ok = ok && len(list) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = within(want[i], list[i])
		}
		return ok
	default:
		return want == got
	}
}
