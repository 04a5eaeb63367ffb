// Package turnstone runs agents on Temporal: each turn of a conversation is one workflow, which survives crashes, can wait for people and
// replays. A program composes it with New and runs it with [Service.Run].
//
// # A worker
//
// Settings come from flags and the environment (docs/reference/configuration.md has all of them). DATABASE_URL is the one that has no default:
//
//	settings, err := turnstone.Load(os.Args[1:], os.Environ())
//	if err != nil {
//		return err
//	}
//	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: os.Environ()})
//	if err != nil {
//		return err
//	}
//	return service.Run(ctx) // until ctx ends; running activities are given time to finish
//
// This is the shipped worker. It serves the task queue, the gateway (HTTP and gRPC) and the channels that the settings name.
//
// # A tool
//
// A tool is a Go function. The model is told the schema of its input, and what a model gets wrong is a failed result for it to correct:
//
//	greet := turnstone.Tool("greet", "Greets somebody by name", func(_ context.Context, in struct {
//		Name string `json:"name"`
//	}) (string, error) {
//		return "Hello, " + in.Name + "!", nil
//	}, turnstone.ReadOnly())
//
//	turnstone.Config{Settings: settings, Toolkits: []agent.Toolkit{turnstone.Toolkit("greetings", greet)}}
//
// [Tool] has the rules. A tool that needs more than a function has implements [agent.Tool]. Use [ToolkitFactory] for a toolkit that needs an
// HTTP client, a database or a gRPC connection; the worker gives it one, within its egress rules.
//
// # An agent
//
// An agent is a document of the catalog, not code. Saved in the catalog's folder it is loaded while the worker runs, and turns that have
// begun keep the plan that they began with:
//
//	kind: AgentInstance
//	name: greeter
//	node_id: agent
//	node_version: "1"
//	parameters:
//	  system_message: You greet people with the tool greet.
//
// A binding gives it the tool (docs/start/catalog.md).
//
// # A turn
//
// The same turn can be asked for over HTTP, with Temporal's command line or by a workflow of one's own:
//
//	curl localhost:8080/v1/turns -d '{"agent":"greeter","message":"Greet Ada."}'
//
//	temporal workflow execute --type AgentTurn --task-queue turnstone \
//	  --workflow-id turn/1 --input '{"agent":"greeter","message":"Greet Ada."}'
//
// [agent.TurnRequest] is the request and [agent.AgentStepOutput] the result, in each of them. Programs in Go use the package client,
// and workflows start AgentTurn as a child workflow.
//
// # Middleware, providers, channels, observers
//
// Middleware wraps the model and tool calls of an agent ([agent.Middleware], the example "Middleware"). A [Provider] makes models out of
// settings. A [Channel] takes messages in and answers them. An [agent.Observer] is told what turns do. Each is a field of [Config], and each
// has a program in the folder examples.
//
// All of them run in activities. None of them can break the replay of a running turn, so they may change with every deployment.
package turnstone
