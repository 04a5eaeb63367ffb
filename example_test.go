package turnstone_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

// A worker with a tool of one's own. It needs Temporal and PostgreSQL, so this example is compiled but not run; examples/customtool is
// the same as a program.
func Example() { //nolint:testableexamples // it needs servers
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	settings, err := turnstone.Load(os.Args[1:], os.Environ())
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: os.Environ(), Toolkits: []agent.Toolkit{greetings{}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(service.Run(ctx))
}

// New names what is missing before anything is opened.
func ExampleNew() {
	_, err := turnstone.New(turnstone.Config{Settings: &turnstone.Settings{}})
	fmt.Println(err)
	// Output: database.url: is empty: set DATABASE_URL, or use the embedded stack (go run ./dev)
}

// Every fault of the settings is reported, with where it is.
func ExampleLoad() {
	_, err := turnstone.Load([]string{"--http-addr", "nowhere"}, []string{"TURNSTONE_LOG_LEVEL=loud"})
	fmt.Println(err)
	// Output:
	// --http-addr: http.addr: want host:port, got "nowhere"
	// TURNSTONE_LOG_LEVEL: log.level: want one of debug, info, warn, error, got "loud"
}

// A tool is a value with a specification and a call.
func Example_tool() {
	for _, tool := range (greetings{}).Tools() {
		result, err := tool.Call(context.Background(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(`{"name":"Ada"}`)})
		fmt.Println(tool.Spec().Name, string(result.Output), result.Failure, err)
	}
	// Output: greet "Hello, Ada!" <nil> <nil>
}

// A middleware embeds agent.Pass and changes what it needs.
func Example_middleware() {
	var m agent.Middleware = shout{}
	reply := agent.ModelReply{Blocks: []agent.Block{agent.Text("done")}}
	jump, err := m.AfterModel(context.Background(), agent.Invocation{}, &reply)
	fmt.Println(agent.Normalize(reply.Blocks), jump == agent.JumpNone, err)
	// Output: DONE true <nil>
}

// greetings is a toolkit of one tool.
type greetings struct{}

func (greetings) Name() string        { return "greetings" }
func (greetings) Tools() []agent.Tool { return []agent.Tool{greet{}} }

type greet struct{}

func (greet) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: "greet", Description: "Greets somebody by name", InherentlySafe: true, Idempotent: true,
		Parameters: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	}
}

func (greet) Call(_ context.Context, _ agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	var args struct{ Name string }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		f := &agent.Failure{Type: string(agent.CodeInvalid), Message: err.Error()}
		return agent.ToolResult{Output: json.RawMessage("null"), Failure: f}, nil //nolint:nilerr // a failed tool is data
	}
	output, err := json.Marshal("Hello, " + args.Name + "!")
	return agent.ToolResult{Output: output}, err
}

// shout is a middleware that raises its voice.
type shout struct{ agent.Pass }

func (shout) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	for i := range reply.Blocks {
		reply.Blocks[i].Text = strings.ToUpper(reply.Blocks[i].Text)
	}
	return agent.JumpNone, nil
}
