package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// checkStructured asks for prose with a schema. Only a model that enforces the schema answers with JSON.
func (e *exam) checkStructured(ctx context.Context) (string, error) {
	req := e.request("Tell me about Lisbon in one sentence.")
	req.OutputSchema = json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"coastal":{"type":"boolean"},` +
		`"rivers":{"type":"integer"}},"required":["city","coastal","rivers"],"additionalProperties":false}`)
	a, err := e.ask(ctx, req)
	if err != nil {
		return "", err
	}
	var got struct {
		City    *string `json:"city"`
		Coastal *bool   `json:"coastal"`
		Rivers  *int    `json:"rivers"`
	}
	if err := strictjson.Decode([]byte(a.text()), &got); err != nil {
		return "", fmt.Errorf("the answer breaks the schema: %w: %s", err, quote(a.text()))
	}
	if got.City == nil || got.Coastal == nil || got.Rivers == nil {
		return "", fmt.Errorf("the answer lacks a field: %s", quote(a.text()))
	}
	return quote(a.text()), nil
}

// checkStructuredWithTools checks that a schema does not suppress tool calls, as with some servers.
func (e *exam) checkStructuredWithTools(ctx context.Context) (string, error) {
	req := e.request(toolQuestion, tool())
	req.OutputSchema = json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"],"additionalProperties":false}`)
	a, err := e.ask(ctx, req)
	if err != nil {
		return "", err
	}
	if len(agent.ToolCalls(a.reply.Blocks)) == 0 {
		return "", fmt.Errorf("the schema suppressed the tool call: %s", quote(a.text()))
	}
	final, err := e.ask(ctx, e.withResults(req, &a))
	if err != nil {
		return "", err
	}
	var got struct {
		Code string `json:"code"`
	}
	if err := strictjson.Decode([]byte(final.text()), &got); err != nil {
		return "", fmt.Errorf("the answer breaks the schema: %w: %s", err, quote(final.text()))
	}
	if !strings.Contains(got.Code, e.code) {
		return "", fmt.Errorf("the tool's result was %s, and it answers %s", e.code, quote(final.text()))
	}
	return quote(final.text()), nil
}
