package cli

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// startWaitingTurn starts a turn that waits for two decisions, and makes the first of them.
func (b *bench) startWaitingTurn(t *testing.T) {
	t.Helper()
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-1", "--agent", "analyst", "x"))
	expires := gatewaytest.Epoch().Add(time.Hour)
	for _, a := range []agent.Approval{
		{ApprovalID: "turn-1.1.call_1", ToolName: "send_mail", Args: json.RawMessage(`{"to":"you"}`)},
		{ApprovalID: "turn-1.1." + strings.Repeat("x", 100), ToolName: "send_mail", Args: json.RawMessage(`{"text":"` + strings.Repeat("long ", 40) + `"}`), ExpiresAt: &expires},
	} {
		b.rt.Emit("turn-1", agent.Event{Type: agent.EventApprovalRequested, Approval: &a})
	}
	b.rt.Emit("turn-1", agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
		ApprovalID: "turn-1.1.call_1", Decision: agent.DecisionApprove, By: "ann",
	}})
	b.screen = &terminal{}
}

func TestApprovalsList(t *testing.T) {
	b := setup(t)
	b.startWaitingTurn(t)
	b.succeeds("approvals list", "", "--state all", "--state decided --session trip-1", "--state all --limit 1", "--session other",
		"--turn turn-1 --state decided")
	golden(t, "approvals_list", b.screen.String())
	found := answer[[]agent.Approval](b, "approvals", "list")
	require.Len(t, found, 1)
	require.Greater(t, len(found[0].Args), 200, "JSON has all arguments")
	require.Equal(t, exitUsage, b.run(noInput(), "approvals", "list", "--state", "open"))
	require.Equal(t, exitUsage, b.run(noInput(), "approvals", "list", "--session", "a b"))
	require.Equal(t, exitUsage, b.run(noInput(), "approvals", "list", "--limit", "-1"))
}

// The list shows what will run: it escapes invisible characters, and says how much it cuts.
func TestApprovalsListHidesNothing(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-1", "--agent", "analyst", "x"))
	args := `{"iban":"DE\u202e123\u202c","host":"good\u200b.example","expr":"a < b\n","n":12345678901234567890,"tag":"` + "\U000E0062\u2028" + `"}`
	args = strings.NewReplacer(`\u202e`, "\u202e", `\u202c`, "\u202c", `\u200b`, "\u200b").Replace(args)
	long := `{"text":"` + strings.Repeat("x", maxArgs) + `","to":"evil"}`
	for _, a := range []agent.Approval{
		{ApprovalID: "a1", ToolName: "pay\u202e_me\x1b[1A", Args: json.RawMessage(args), Description: "Pays\u200b Ann."},
		{ApprovalID: "a2", ToolName: "pay", Args: json.RawMessage(long)},
		{ApprovalID: "a3", ToolName: "pay", Args: json.RawMessage(`{"text":"` + strings.Repeat("x", maxArgs-11) + `"}`)},
		{ApprovalID: "a4", ToolName: "pay", Args: json.RawMessage(`{"text":"` + strings.Repeat("x", maxArgs-10) + `"}`)},
	} {
		b.rt.Emit("turn-1", agent.Event{Type: agent.EventApprovalRequested, Approval: &a})
	}
	b.show(0, "approvals", "list")
	text := b.screen.out()
	for _, want := range []string{
		`pay\u202e_me`, `"iban":"DE\u202e123\u202c"`, `"host":"good\u200b.example"`, `"expr":"a < b\n"`, `"n":12345678901234567890`, `"tag":"\udb40\udc62\u2028"`,
		`x… and ` + strconv.Itoa(len(long)-maxArgs) + ` more characters; --output json has them`, `xxx"}` + "\n", `xxx"… and 1 more character`,
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "evil")
	require.Equal(t, 5, strings.Count(text, "\n"), "one line for each approval")
	found := answer[[]agent.Approval](b, "approvals", "list")
	for _, hidden := range []string{"\u202e", "\u202c", "\u200b", "\u2028", "\U000E0062", "\x1b"} {
		require.NotContains(t, text, hidden)
		require.NotContains(t, b.screen.out(), hidden)
	}
	require.JSONEq(t, args, string(found[0].Args))
	require.JSONEq(t, long, string(found[1].Args))
	require.Equal(t, "pay\u202e_me\x1b[1A", found[0].ToolName)
	require.Equal(t, "Pays\u200b Ann.", found[0].Description)
}

func TestApprovalsDecide(t *testing.T) {
	b := setup(t)
	b.startWaitingTurn(t)
	file := writeFile(t, `{"k": 1}`, t.TempDir(), "args.json")
	const id = "turn-1.1.call_1"
	cases := map[string]struct {
		in   string
		args []string
		want agent.Decision
	}{
		"approve":   {"", []string{"approve", "--remember", "--by", "me"}, agent.Decision{Decision: agent.DecisionApprove, Remember: true, By: "me"}},
		"edit":      {"", []string{"edit", "--args", `{"k":1}`}, agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(`{"k":1}`)}},
		"from file": {"", []string{"edit", "--args", "@" + file}, agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(`{"k":1}`)}},
		"piped":     {`{"k":2}`, []string{"edit", "--args", "@-"}, agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(`{"k":2}`)}},
		"reject":    {"", []string{"reject", "--message", "not today"}, agent.Decision{Decision: agent.DecisionReject, Message: "not today"}},
		"respond":   {"", []string{"respond", "--message", "42"}, agent.Decision{Decision: agent.DecisionRespond, Message: "42"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b.screen = &terminal{}
			var got agent.Decision
			b.rt.Decided = func(turn agent.TurnID, d agent.Decision) error {
				require.Equal(t, agent.TurnID("turn-1"), turn)
				got = d
				return nil
			}
			require.Equal(t, 0, b.run(strings.NewReader(c.in), append([]string{"approvals", "decide", id}, c.args...)...), b.screen.String())
			require.Equal(t, id+": "+c.args[0]+"\n", b.screen.out())
			c.want.ApprovalID = id
			require.Equal(t, c.want, got)
		})
	}
	b.show(0, "approvals", "decide", id, "approve", "-o", "json")
	require.JSONEq(t, `{"turn_id":"turn-1","approval_id":"`+id+`","decision":"approve"}`, b.screen.out())

	b.rt.Decided = func(agent.TurnID, agent.Decision) error {
		return agent.Errorf(agent.CodeConflict, "", "decided already by ann")
	}
	for text, args := range map[string][]string{
		"decided already by ann":  {id, "approve"},
		"no approval":             {"unknown", "approve"},
		"edit wants --args":       {id, "edit"},
		"respond wants --message": {id, "respond"},
		"--args is not JSON":      {id, "edit", "--args", "{"},
		"no such file":            {id, "edit", "--args", "@/does/not/exist"},
		"want approve":            {id, "maybe"},
		"accepts 2 arg":           {id},
	} {
		b.screen = &terminal{}
		require.Equal(t, exitUsage, b.run(noInput(), append([]string{"approvals", "decide"}, args...)...), text)
		require.Contains(t, b.screen.String(), text)
	}
	require.Equal(t, exitUsage, b.run(noInput(), "approvals", "decide", id, "approve", "--tenant", "other"), "another tenant's")
	large := b.showInput(`"`+strings.Repeat("x", maxManifest)+`"`, exitUsage, "approvals", "decide", id, "edit", "--args", "@-")
	require.Contains(t, large, "larger than")
}
