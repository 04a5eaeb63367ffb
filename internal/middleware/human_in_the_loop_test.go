package middleware

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

var human = newApprovals().build

func gate(t *testing.T, options string, call agent.GatedCall, so agent.GateVerdict) agent.GateVerdict {
	t.Helper()
	g, ok := build(t, human, options).(agent.Gater)
	require.True(t, ok)
	v, err := g.Gate(call, so)
	require.NoError(t, err)
	return v
}

func gatedCall(args string) agent.GatedCall {
	return agent.GatedCall{Tool: agent.PlanTool{Spec: agent.ToolSpec{Name: "pay"}}, Args: []byte(args)}
}

func TestHumanInTheLoopPrecedence(t *testing.T) {
	const (
		none  = ""
		yes   = "true"
		no    = "false"
		ask   = `{"when":"true"}`
		pass  = `{"when":"false"}`
		fails = `{"when":"args.nope > 1"}`
	)
	cases := []struct {
		entry, allow, when, fallback string
		safe                         bool // the verdict so far: not asked
		rule                         string
	}{
		// Nothing said: the verdict so far.
		{none, "", "", "", true, ""},
		{none, "", "", "", false, "so far"},
		{none, "", "", "keep", true, ""},
		{none, "", "", "keep", false, "so far"},
		// The default.
		{none, "", "", "ask", true, "human_in_the_loop: default"},
		{none, "", "", "allow", false, ""},
		// The condition is over the default, when it says yes.
		{none, "", "true", "allow", true, "human_in_the_loop: when"},
		{none, "", "false", "allow", false, ""},
		{none, "", "false", "ask", true, "human_in_the_loop: default"},
		{none, "", "false", "keep", false, "so far"},
		{none, "", "args.nope > 1", "allow", true, "human_in_the_loop: when failed, so a person is asked"},
		// The list is over the condition and the default.
		{none, "pay", "true", "ask", false, ""},
		{none, "p*", "true", "ask", false, ""},
		{none, "pay*", "true", "ask", false, ""},
		{none, "pa", "true", "ask", true, "human_in_the_loop: when"},
		{none, "x*", "", "", false, "so far"},
		// The entry is over all of them.
		{yes, "pay", "false", "allow", true, "human_in_the_loop: interrupt_on.pay"},
		{no, "", "true", "ask", false, ""},
		{`{}`, "pay", "false", "allow", true, "human_in_the_loop: interrupt_on.pay"},
		{ask, "pay", "false", "allow", true, "human_in_the_loop: interrupt_on.pay.when"},
		{pass, "", "true", "ask", false, ""},
		{fails, "pay", "false", "allow", true, "human_in_the_loop: interrupt_on.pay.when failed, so a person is asked"},
	}
	for _, c := range cases {
		o := map[string]any{}
		if c.entry != "" {
			o["interrupt_on"] = map[string]any{"pay": json.RawMessage(c.entry), "other": true}
		}
		if c.allow != "" {
			o["allow"] = []string{"other", c.allow}
		}
		if c.when != "" {
			o["when"] = c.when
		}
		if c.fallback != "" {
			o["default"] = c.fallback
		}
		options, err := json.Marshal(o)
		require.NoError(t, err)
		so := agent.GateVerdict{Gate: agent.GateApproval, Rule: "so far"}
		if c.safe {
			so = agent.GateVerdict{}
		}
		v := gate(t, string(options), gatedCall(`{"amount":1}`), so)
		require.Equal(t, c.rule, v.Rule, "%s", options)
		require.Equal(t, c.rule != "", v.Gate == agent.GateApproval, "%s", options)

		always := gatedCall(`{"amount":1}`)
		always.Tool.Approval = agent.ApproveAlways
		require.Equal(t, agent.GateApproval, gate(t, string(options), always, so).Gate, "never loosened: %s", options)

		for _, g := range []agent.Gate{"of another kind", agent.GateDenied} {
			so := agent.GateVerdict{Gate: g, Rule: "not a person's"}
			require.Equal(t, so, gate(t, string(options), gatedCall(`{}`), so), "%s", options)
		}
	}
}

func TestHumanInTheLoopSaysHow(t *testing.T) {
	const options = `{"description_prefix":"Look at this","expires_in":"1h30m","on_expiry":"end","remember":"tool","default":"ask","interrupt_on":{
		"pay":{"allowed_decisions":["approve","reject"],"description":"Money goes out","expires_in":60,"on_expiry":"approve","remember":"off"},
		"list":true,
		"read":{"remember":"call"},
		"send":{"description":"Mail"}}}`
	call := gatedCall(`{"amount":1}`)
	require.Equal(t, agent.GateVerdict{
		Gate: agent.GateApproval, Rule: "human_in_the_loop: interrupt_on.pay", Description: "Money goes out",
		Allowed: []agent.DecisionKind{agent.DecisionApprove, agent.DecisionReject}, ExpiresSec: 60, OnExpiry: agent.ExpiryApprove, Remember: agent.RememberOff,
	}, gate(t, options, call, agent.GateVerdict{}))
	call.Tool.Spec.Name = "read"
	require.Equal(t, agent.GateVerdict{
		Gate: agent.GateApproval, Rule: "human_in_the_loop: interrupt_on.read", Description: "Look at this\n\nTool: read\nArgs: {\"amount\":1}",
		ExpiresSec: 5400, OnExpiry: agent.ExpiryEnd, Remember: agent.RememberCall,
	}, gate(t, options, call, agent.GateVerdict{}))
	call.Tool.Spec.Name = "send"
	require.Equal(t, agent.GateVerdict{
		Gate: agent.GateApproval, Rule: "human_in_the_loop: interrupt_on.send", Description: "Mail",
		ExpiresSec: 5400, OnExpiry: agent.ExpiryEnd, Remember: agent.RememberTool,
	}, gate(t, options, call, agent.GateVerdict{}))
	for name, rule := range map[string]string{"list": "interrupt_on.list", "other": "default"} {
		call.Tool.Spec.Name = name
		require.Equal(t, agent.GateVerdict{
			Gate: agent.GateApproval, Rule: "human_in_the_loop: " + rule, Description: "Look at this\n\nTool: " + name + "\nArgs: {\"amount\":1}",
			ExpiresSec: 5400, OnExpiry: agent.ExpiryEnd, Remember: agent.RememberTool,
		}, gate(t, options, call, agent.GateVerdict{}))
	}

	so := agent.GateVerdict{Gate: agent.GateApproval, Rule: "not inherently safe"}
	v := gate(t, `{"expires_in":"48h"}`, gatedCall(""), so)
	require.Equal(t, agent.GateVerdict{
		Gate: agent.GateApproval, Rule: so.Rule, Description: "Tool execution requires approval\n\nTool: pay\nArgs: {}", ExpiresSec: 172_800,
	}, v, "how a call waits that would have waited anyway")
	so = agent.GateVerdict{
		Gate: agent.GateApproval, Rule: "r", Description: "d", Allowed: []agent.DecisionKind{agent.DecisionReject}, ExpiresSec: 5,
		OnExpiry: agent.ExpiryEnd, Remember: agent.RememberOff,
	}
	require.Equal(t, so, gate(t, `{"expires_in":"48h","on_expiry":"approve","remember":"tool"}`, gatedCall(""), so), "what another middleware said of it stands")
}

func TestHumanInTheLoopDescribesBriefly(t *testing.T) {
	v := gate(t, `{"default":"ask"}`, gatedCall(`{"a":"`+strings.Repeat("é", 100_000)+`"}`), agent.GateVerdict{})
	require.LessOrEqual(t, len(v.Description), 4<<10)
	require.True(t, strings.HasSuffix(v.Description, "é…"))
	v = gate(t, `{"default":"ask"}`, gatedCall("\xff"), agent.GateVerdict{})
	require.Equal(t, "Tool execution requires approval\n\nTool: pay\nArgs: \uFFFD", v.Description)
}

func TestHumanInTheLoopConditions(t *testing.T) {
	call := agent.GatedCall{
		Tool:       agent.PlanTool{Toolkit: "bank", Spec: agent.ToolSpec{Name: "pay", Idempotent: true}},
		Args:       []byte(`{"amount":1000,"to":{"iban":"DE1"},"tags":["a","b"],"note":null,"n":9007199254740993}`),
		EffectFree: true, Tenant: "acme", UserID: "u1", UserRole: "clerk",
	}
	for when, want := range map[string]bool{
		`args.amount > 999`:                            true,
		`args.amount == 1000`:                          true,
		`args.amount == 1000.0`:                        true,
		`args.amount > 1000`:                           false,
		`args.to.iban.startsWith('DE')`:                true,
		`args.tags.exists(x, x == 'b')`:                true,
		`has(args.nope) && args.nope > 1`:              false,
		`args.note == null`:                            true,
		`tool.name == 'pay' && tool.toolkit == 'bank'`: true,
		`tool.idempotent && !tool.inherently_safe`:     true,
		`tenant == 'acme' && user.id == 'u1'`:          true,
		`user.role in ['admin', 'owner']`:              false,
		`effect_free`:                                  true,
		`!effect_free`:                                 false,
		`args.to.iban.matches('(?i)^de[0-9]$')`:        true,
		`size(args) == 5`:                              true,
		`args.n > 9007199254740991`:                    true,
	} {
		options := fmt.Sprintf(`{"default":"allow","when":%q}`, when)
		v := gate(t, options, call, agent.GateVerdict{})
		require.Equal(t, want, v.Gate == agent.GateApproval, when)
		require.NotContains(t, v.Rule, "failed", when)
	}
}

func TestHumanInTheLoopAsksWhenAConditionFails(t *testing.T) {
	many := `[` + strings.Repeat(`1,`, 30_000) + `1]`
	for name, c := range map[string]struct{ when, args, why string }{
		"a name that is not there": {`args.nope > 1`, `{}`, "no such key: nope"},
		"another type":             {`args.a > 1`, `{"a":"x"}`, "no such overload"},
		"no object":                {`args.a > 1`, `[]`, "want an object, got an array"},
		"not JSON":                 {`args.a > 1`, `{"a":`, "malformed JSON"},
		"a name twice":             {`args.a > 1`, `{"a":1,"a":2}`, "a: is given twice"},
		"a name in other letters":  {`args.a > 1`, `{"a":1,"A":2}`, "differ in nothing but upper and lower case"},
		"the same further in":      {`args.a > 1`, `{"a":1,"b":[{"c":1,"C":1}]}`, "differ in nothing but upper and lower case"},
		"too long":                 {`args.a > 1`, `{"a":1,"b":"` + strings.Repeat("x", 1<<20) + `"}`, "at most 1048576 are looked at"},
		"too many steps":           {`args.a.all(x, args.a.all(y, x + y > 0))`, `{"a":` + many + `}`, "limit"},
		"a text that grows":        {`args.a.map(x, args.b + args.b).size() > 0`, `{"a":[1,2,3],"b":"` + strings.Repeat("x", 300_000) + `"}`, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			v := gate(t, fmt.Sprintf(`{"default":"allow","when":%q}`, c.when), gatedCall(c.args), agent.GateVerdict{})
			require.Equal(t, agent.GateApproval, v.Gate)
			require.Equal(t, "human_in_the_loop: when failed, so a person is asked", v.Rule, "the history holds nothing of the arguments")
			require.Contains(t, v.Description, "The condition when failed, so you are asked to be safe: ")
			require.Contains(t, v.Description, c.why)
			require.LessOrEqual(t, len(v.Description), 4<<10)
		})
	}
}

func TestConditionsAreCompiledOnce(t *testing.T) {
	c := newConditions()
	one, err := c.compile(`args.amount > 1`)
	require.NoError(t, err)
	two, err := c.compile(`args.amount > 1`)
	require.NoError(t, err)
	require.Same(t, one, two)
}

func TestHumanInTheLoopRefusesOptions(t *testing.T) {
	refuses(t, human, map[string]string{
		`{"interrupt_on":{"pay":1}}`:                                     "interrupt_on.pay",
		`{"interrupt_on":{"pay":null}}`:                                  "interrupt_on.pay",
		`{"interrupt_on":{"pay":"yes"}}`:                                 "interrupt_on.pay",
		`{"interrupt_on":{"":true}}`:                                     "interrupt_on",
		`{"interrupt_on":["pay"]}`:                                       "interrupt_on",
		`{"interrupt_on":{"pay":{"allow":["approve"]}}}`:                 "interrupt_on.pay.allow",
		`{"interrupt_on":{"pay":{"allowed_decisions":[]}}}`:              "interrupt_on.pay.allowed_decisions",
		`{"interrupt_on":{"pay":{"allowed_decisions":["ok"]}}}`:          "interrupt_on.pay.allowed_decisions[0]",
		`{"interrupt_on":{"pay":{"allowed_decisions":["edit","edit"]}}}`: "interrupt_on.pay.allowed_decisions[1]",

		`{"interrupt_on":{"pay":{"allowed_decisions":["reject"],"expires_in":1,"on_expiry":"approve"}}}`: "interrupt_on.pay.allowed_decisions",
		`{"interrupt_on":{"pay":{"description":" "}}}`:                                                   "interrupt_on.pay.description",
		`{"interrupt_on":{"pay":{"when":""}}}`:                                                           "interrupt_on.pay.when",
		`{"interrupt_on":{"pay":{"when":"args.a >"}}}`:                                                   "interrupt_on.pay.when",
		`{"interrupt_on":{"pay":{"expires_in":"soon"}}}`:                                                 "interrupt_on.pay.expires_in",
		`{"interrupt_on":{"pay":{"remember":"yes"}}}`:                                                    "interrupt_on.pay.remember",
		`{"when":"args.amount"}`:                                                                         "when",
		`{"when":"amount > 1"}`:                                                                          "when",
		`{"when":"tool.nmae == 'x'"}`:                                                                    "when",
		`{"when":"user.name == 'x'"}`:                                                                    "when",
		`{"when":"tenant"}`:                                                                              "when",
		`{"when":"'x'.matches('(')"}`:                                                                    "when",
		`{"when":"` + strings.Repeat("true && ", 1000) + `true"}`:                                        "when",
		`{"allow":["*"]}`:                                                                                "allow[0]",
		`{"allow":["a","b*c"]}`:                                                                          "allow[1]",
		`{"allow":["a**"]}`:                                                                              "allow[0]",
		`{"allow":[""]}`:                                                                                 "allow[0]",
		`{"default":"deny"}`:                                                                             "default",
		`{"default":""}`:                                                                                 "default",
		`{"expires_in":0}`:                                                                               "expires_in",
		`{"expires_in":-5}`:                                                                              "expires_in",
		`{"expires_in":0.5}`:                                                                             "expires_in",
		`{"expires_in":"1500ms"}`:                                                                        "expires_in",
		`{"expires_in":"9000h"}`:                                                                         "expires_in",
		`{"expires_in":1e300}`:                                                                           "expires_in",
		`{"expires_in":null}`:                                                                            "expires_in",
		`{"expires_in":true}`:                                                                            "expires_in",
		`{"on_expiry":"reject"}`:                                                                         "on_expiry",
		`{"on_expiry":"ask","expires_in":5}`:                                                             "on_expiry",
		`{"remember":"session"}`:                                                                         "remember",
		`{"description_prefix":""}`:                                                                      "description_prefix",
		`{"interupt_on":{}}`:                                                                             "interupt_on",
	})
	build(t, human, `{"on_expiry":"end","interrupt_on":{"pay":{"expires_in":"8784h"}}}`)
	build(t, human, ``)
}
