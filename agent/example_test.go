package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// A message has the same JSON in a Temporal payload, in the database and over HTTP.
func ExampleUserText() {
	data, err := json.Marshal(agent.UserText("Which flights leave today?"))
	fmt.Println(string(data), err)
	// Output: {"role":"user","blocks":[{"type":"text","text":"Which flights leave today?"}]} <nil>
}

// The error of an invalid message names the invalid field.
func ExampleMessage_Validate() {
	image := agent.Message{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage, Base64: "aGk="}}}
	fmt.Println(image.Validate("messages[0]"))
	// Output: messages[0].blocks[0].mime_type: is needed with base64
}

// NormalizeOutput returns the text blocks of a reply only.
func ExampleNormalize() {
	blocks := []agent.Block{{Type: agent.BlockReasoning, Reasoning: "They want the cheapest."}, agent.Text("DL 104, 289 USD")}
	fmt.Println(agent.Normalize(blocks))
	// Output: DL 104, 289 USD
}

// A request is refused before anything is recorded.
func ExampleTurnRequest_Validate() {
	request := agent.TurnRequest{Message: "Hello", Mode: "sometimes"}
	fmt.Println(request.Validate(1 << 20))
	// Output: mode: want durable or direct, got "sometimes"
}

// The limits of a request can only lower the limits of the plan.
func ExampleLimits_Lower() {
	plan := agent.Limits{ModelCalls: 10, CostUSD: 0.5}
	lowered := plan.Lower(&agent.Limits{ModelCalls: 3, CostUSD: 2})
	fmt.Println(lowered.ModelCalls, lowered.CostUSD)
	// Output: 3 0.5
}

// The code of an error determines its HTTP and gRPC status, and whether a retry can succeed.
func ExampleCodeOf() {
	err := fmt.Errorf("search flights: %w", agent.Errorf(agent.CodeRateLimited, "search", "100 requests a minute"))
	fmt.Println(agent.CodeOf(err), agent.CodeOf(err).Retryable())
	fmt.Println(agent.CodeOf(errors.New("disk full")))
	// Output:
	// rate_limited true
	// internal
}

// A failure is an error as data, for the model and for the stored result.
func ExampleFailureOf() {
	failure := agent.FailureOf(agent.Invalid("code", "want three letters, got %q", "JFKX"))
	fmt.Println(failure.Type, failure.Field, failure.Message)
	// Output: invalid code code: want three letters, got "JFKX"
}

// Check names the field that a decision lacks.
func ExampleDecision_Check() {
	edit := agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, By: "ann"}
	fmt.Println(edit.Check())
	// Output: args: decision edit needs the new arguments as an object
}

// A policy that lists tools allows them without an approval and refuses all other calls that need one.
func ExampleApprovalPolicy() {
	policy := agent.ApprovalPolicy("send_email,patch_workflow")
	fmt.Println(policy.Waits(), policy.Allows("send_email"), policy.Allows("delegate_to_agent"))
	// Output: false true false
}

// A cron expression has five to seven fields, or is a name such as @daily.
func ExampleCheckCron() {
	fmt.Println(agent.CheckCron("0 8 * * MON-FRI"), agent.CheckCron("@daily"))
	fmt.Println(agent.CheckCron("0 25 * * *"))
	// Output:
	// <nil> <nil>
	// hour: "25" is not within 0 to 23
}

// A schedule runs an agent at the given times.
func ExampleSchedule_Validate() {
	schedule := agent.Schedule{Name: "mornings", Message: "What is new?", Every: "soon"}
	fmt.Println(schedule.Validate())
	// Output: every: want a duration such as 90s, 15m or 24h, got "soon"
}

// A scope allows an action, either for all resources or for those after the colon.
func ExamplePrincipal_May() {
	clerk := agent.Principal{Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"turns.*:billing", "results.read"}}
	fmt.Println(clerk.May(agent.ActionTurnsRun, "billing"), clerk.May(agent.ActionTurnsRun, "analyst"), clerk.May(agent.ActionResultsRead, ""))
	// Output: true false true
}
