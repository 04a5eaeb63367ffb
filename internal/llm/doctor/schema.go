package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

var errNoSchema = skipped("the model does not declare that it enforces schemas")

// structured asks for prose under a schema: only a model that enforces it answers in its shape.
func (e *exam) structured(ctx context.Context) (string, error) {
	if !e.caps.OutputSchema {
		return "", errNoSchema
	}
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
	if err := strictjson.Decode([]byte(a.said()), &got); err != nil {
		return "", fmt.Errorf("the answer breaks the schema: %w: %s", err, quote(a.said()))
	}
	if got.City == nil || got.Coastal == nil || got.Rivers == nil {
		return "", fmt.Errorf("the answer lacks a field: %s", quote(a.said()))
	}
	return quote(a.said()), nil
}

// structuredWithTools: with some servers a schema suppresses tool calls.
func (e *exam) structuredWithTools(ctx context.Context) (string, error) {
	switch {
	case !e.caps.OutputSchema:
		return "", errNoSchema
	case e.caps.InvokesTools:
		return "", errInvokes
	}
	req := e.request(toolQuestion, tool())
	req.OutputSchema = json.RawMessage(`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"],"additionalProperties":false}`)
	a, err := e.ask(ctx, req)
	if err != nil {
		return "", err
	}
	if len(agent.ToolCalls(a.reply.Blocks)) == 0 {
		return "", fmt.Errorf("the schema suppressed the tool call: %s", quote(a.said()))
	}
	final, err := e.ask(ctx, e.answered(req, &a))
	if err != nil {
		return "", err
	}
	var got struct {
		Code string `json:"code"`
	}
	if err := strictjson.Decode([]byte(final.said()), &got); err != nil {
		return "", fmt.Errorf("the answer breaks the schema: %w: %s", err, quote(final.said()))
	}
	if !strings.Contains(got.Code, e.code) {
		return "", fmt.Errorf("the tool's result was %s, and it answers %s", e.code, quote(final.said()))
	}
	return quote(final.said()), nil
}
