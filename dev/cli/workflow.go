package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// exampleTag is the tag of the workflow that prompts in the documentation change.
const exampleTag = "main"

// addExampleWorkflow stores a workflow with one node, which fetches the sample flights, unless there is one with the same tag.
func (inst *instance) addExampleWorkflow(ctx context.Context) error {
	settings := inst.settings
	needsOtherKey := settings.Auth.On() && settings.Auth.OperatorKey == ""
	if !settings.Gateway.Enabled || settings.HTTP.TLSCert != "" || needsOtherKey {
		return nil // this program cannot call the API
	}
	api, err := inst.client()
	if err != nil {
		return err
	}
	if _, err := api.Workflow(ctx, agent.WorkflowKey{Tag: exampleTag}, 0); agent.CodeOf(err) != agent.CodeNotFound {
		return nil // there is a workflow of the user
	}
	step := map[string]any{
		"step": "http_request", "url": inst.stack.Flights.URL() + "/flights", "params": map[string]string{"origin": "NYC", "dest": "LAX"},
	}
	config, err := json.Marshal(map[string]any{"action": "pipeline", "pipeline": []any{step}})
	if err != nil {
		return err
	}
	definition, err := json.Marshal(agent.WorkflowDefinition{
		Description: "Fetches flights. Ask for \"add email notification whenever price drops below $500\".",
		Nodes:       []agent.WorkflowNode{{ID: "fetch_flights", Type: agent.WorkflowTask, Config: config}}, Edges: []agent.WorkflowEdge{},
	})
	if err != nil {
		return err
	}
	put := client.WorkflowPut{
		WorkflowKey: agent.WorkflowKey{Tag: exampleTag}, Definition: definition, Description: "The example of the embedded stack",
	}
	if _, err := api.PutWorkflow(ctx, put); err != nil {
		return fmt.Errorf("put the example workflow: %w", err)
	}
	return nil
}
