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
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: os.Environ(), Toolkits: []agent.Toolkit{turnstone.SingleTool(greet())},
	})
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

// A tool is a function of typed input. What a model gets wrong is a failed result that names the field.
func ExampleTool() {
	for _, args := range []string{`{"name":"Ada"}`, `{"nam":"Ada"}`} {
		result, err := greet().Call(context.Background(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(args)})
		fmt.Println(string(result.Output), err)
	}
	// Output:
	// "Hello, Ada!" <nil>
	// {"error":{"type":"invalid","message":"nam: unknown field: want one of name; name: is required","retryable":false,"tool":"greet","field":"nam"}} <nil>
}

// A middleware embeds agent.Pass and changes what it needs.
func Example_middleware() {
	var m agent.Middleware = shout{}
	reply := agent.ModelReply{Blocks: []agent.Block{agent.Text("done")}}
	jump, err := m.AfterModel(context.Background(), agent.Invocation{}, &reply)
	fmt.Println(agent.Normalize(reply.Blocks), jump == agent.JumpNone, err)
	// Output: DONE true <nil>
}

// person is whom to greet.
type person struct {
	Name string `json:"name" jsonschema_description:"Of whom to greet"`
}

func greet() agent.Tool {
	return turnstone.Tool("greet", "Greets somebody by name", func(_ context.Context, in person) (string, error) {
		return "Hello, " + in.Name + "!", nil
	}, turnstone.ReadOnly())
}

// shout is a middleware that raises its voice.
type shout struct{ agent.Pass }

func (shout) AfterModel(_ context.Context, _ agent.Invocation, reply *agent.ModelReply) (agent.Jump, error) {
	for i := range reply.Blocks {
		reply.Blocks[i].Text = strings.ToUpper(reply.Blocks[i].Text)
	}
	return agent.JumpNone, nil
}
