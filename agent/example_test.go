package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// The JSON of a message is the same in a Temporal payload, in the database and over HTTP.
func ExampleUserText() {
	data, err := json.Marshal(agent.UserText("Which flights leave today?"))
	fmt.Println(string(data), err)
	// Output: {"role":"user","blocks":[{"type":"text","text":"Which flights leave today?"}]} <nil>
}

// A faulty message names the field that is at fault.
func ExampleMessage_Validate() {
	image := agent.Message{Role: agent.RoleUser, Blocks: []agent.Block{{Type: agent.BlockImage, Base64: "aGk="}}}
	fmt.Println(image.Validate("messages[0]"))
	// Output: messages[0].blocks[0].mime_type: is needed with base64
}

// The text of a reply, without its other blocks.
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

// The limits of a request can only lower those of the plan.
func ExampleLimits_Lower() {
	plan := agent.Limits{ModelCalls: 10, CostUSD: 0.5}
	lowered := plan.Lower(&agent.Limits{ModelCalls: 3, CostUSD: 2})
	fmt.Println(lowered.ModelCalls, lowered.CostUSD)
	// Output: 3 0.5
}

// A code says how an error is answered over HTTP and gRPC, and whether the same request may succeed later.
func ExampleCodeOf() {
	err := fmt.Errorf("search flights: %w", agent.Errorf(agent.CodeRateLimited, "search", "100 requests a minute"))
	fmt.Println(agent.CodeOf(err), agent.CodeOf(err).Retryable())
	fmt.Println(agent.CodeOf(errors.New("disk full")))
	// Output:
	// rate_limited true
	// internal
}

// A failure is an error as data: what the model reads, and what a result holds.
func ExampleFailureOf() {
	failure := agent.FailureOf(agent.Invalid("code", "want three letters, got %q", "JFKX"))
	fmt.Println(failure.Type, failure.Field, failure.Message)
	// Output: invalid code code: want three letters, got "JFKX"
}

// The answer to an approval says what is missing.
func ExampleDecision_Check() {
	edit := agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, By: "ann"}
	fmt.Println(edit.Check())
	// Output: args: decision edit needs the new arguments as an object
}

// A turn that nobody watches refuses what needs an approval, except for the tools of its list.
func ExampleApprovalPolicy() {
	policy := agent.ApprovalPolicy("send_email,patch_workflow")
	fmt.Println(policy.Waits(), policy.Allows("send_email"), policy.Allows("delegate_to_agent"))
	// Output: false true false
}

// Cron texts have five to seven fields, or a name.
func ExampleCheckCron() {
	fmt.Println(agent.CheckCron("0 8 * * MON-FRI"), agent.CheckCron("@daily"))
	fmt.Println(agent.CheckCron("0 25 * * *"))
	// Output:
	// <nil> <nil>
	// hour: "25" is not within 0 to 23
}

// A schedule asks an agent by the clock.
func ExampleSchedule_Validate() {
	schedule := agent.Schedule{Name: "mornings", Message: "What is new?", Every: "soon"}
	fmt.Println(schedule.Validate())
	// Output: every: want a duration such as 90s, 15m or 24h, got "soon"
}

// A scope allows an action, everywhere or for the resources behind the colon.
func ExamplePrincipal_May() {
	clerk := agent.Principal{Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"turns.*:billing", "results.read"}}
	fmt.Println(clerk.May(agent.ActionTurnsRun, "billing"), clerk.May(agent.ActionTurnsRun, "analyst"), clerk.May(agent.ActionResultsRead, ""))
	// Output: true false true
}
