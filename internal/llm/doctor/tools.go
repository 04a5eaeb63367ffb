package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

const (
	toolName     = "lookup_code"
	toolQuestion = "What is the code of Lisbon? Only the tool " + toolName + " knows it: call it, do not guess. Then tell me the code."
)

func tool() agent.ToolSpec {
	return agent.ToolSpec{
		Name: toolName, Description: "Looks up the secret code of a city.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
	}
}

type toolArgs struct {
	City string `json:"city"`
}

// askWithTool returns the answer to toolQuestion. It asks once.
func (e *exam) askWithTool(ctx context.Context) (*answer, error) {
	if e.toolAnswer == nil {
		a, err := e.ask(ctx, e.request(toolQuestion, tool()))
		e.toolAnswer, e.toolErr = &a, err
	}
	return e.toolAnswer, e.toolErr
}

func (e *exam) checkCallIsBlock(ctx context.Context) (string, error) {
	a, err := e.askWithTool(ctx)
	if err != nil {
		return "", err
	}
	calls, err := readCalls(a)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s(%s)", calls[0].Name, calls[0].Args), nil
}

// readCalls returns the tool calls of a reply, which must have one or more valid ones.
func readCalls(a *answer) ([]agent.ToolCall, error) {
	for i := range a.reply.Blocks {
		if b := &a.reply.Blocks[i]; b.Type == agent.BlockInvalidToolCall {
			return nil, fmt.Errorf("the call of %q cannot be read: %s", b.Name, b.Error)
		}
	}
	calls, text := agent.ToolCalls(a.reply.Blocks), a.text()
	switch {
	case len(calls) == 0 && strings.Contains(text, toolName):
		return nil, fmt.Errorf("the call came as text: %s", quote(text))
	case len(calls) == 0:
		return nil, fmt.Errorf("it answered without calling the tool, so that the answer is made up: %s", quote(text))
	case looksLikeCall(text):
		return nil, fmt.Errorf("the call came as text besides: %s", quote(text))
	}
	for _, c := range calls {
		var args toolArgs
		if err := strictjson.Decode(c.Args, &args); err != nil {
			return nil, fmt.Errorf("the arguments break the tool's schema: %w", err)
		}
		switch {
		case c.Name != toolName:
			return nil, fmt.Errorf("it called %q, which it was not given", c.Name)
		case args.City == "":
			return nil, fmt.Errorf("the arguments break the tool's schema: %s", c.Args)
		}
	}
	return calls, nil
}

// looksLikeCall reports whether a text contains a call in one of the notations of models, which servers should parse.
func looksLikeCall(text string) bool {
	for _, mark := range []string{"<tool_call", "<function=", "[TOOL_CALLS]", `"name":"` + toolName, `"name": "` + toolName, `"city":`, toolName + `({`} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

func (e *exam) checkCallAtEnd(ctx context.Context) (string, error) {
	a, err := e.askWithTool(ctx)
	switch {
	case err != nil:
		return "", err
	case len(agent.ToolCalls(a.reply.Blocks)) == 0:
		return "", errors.New("the stream ended without the call")
	case a.reply.FinishReason != agent.FinishToolCalls:
		return "", fmt.Errorf("the stream ended with %q, want %q", a.reply.FinishReason, agent.FinishToolCalls)
	case a.streamed != a.text():
		return "", fmt.Errorf("fragments of the call were streamed as text: %s", quote(a.streamed))
	}
	return string(a.reply.FinishReason), nil
}

// checkInvocation checks that the model runs tools itself only if it declares so.
func (e *exam) checkInvocation(ctx context.Context) (string, error) {
	a, err := e.askWithTool(ctx)
	if err != nil {
		return "", err
	}
	calls := len(agent.ToolCalls(a.reply.Blocks))
	if e.caps.InvokesTools {
		if calls > 0 {
			return "", fmt.Errorf("it declares that it invokes tools itself, and left %d to the runtime, which would never run them", calls)
		}
		return "it invokes them itself, as it declares", nil
	}
	for i := range a.reply.Blocks {
		b := &a.reply.Blocks[i]
		isResult := b.Type == agent.BlockToolResult || b.Type == agent.BlockServerToolResult
		if isResult || (b.Type == agent.BlockServerToolCall && b.Name == toolName) {
			return "", fmt.Errorf("it ran %q by itself, where the runtime sees neither approvals nor limits, and does not declare so", b.Name)
		}
	}
	return "it leaves them to the runtime, as it declares", nil
}

// checkResultIsUsed sends the code as the result of the call. A final answer without the code is made up.
func (e *exam) checkResultIsUsed(ctx context.Context) (string, error) {
	a, err := e.askWithTool(ctx)
	if err != nil {
		return "", err
	}
	if len(agent.ToolCalls(a.reply.Blocks)) == 0 {
		return "", skipReason("there was no call to answer")
	}
	if strings.Contains(a.text(), e.code) {
		return "", errors.New("it knew the code before it was told")
	}
	final, err := e.ask(ctx, e.withResults(e.request(toolQuestion, tool()), a))
	if err != nil {
		return "", err
	}
	if strings.Contains(final.text(), e.code) {
		return quote(final.text()), nil
	}
	if len(agent.ToolCalls(final.reply.Blocks)) > 0 {
		return "", errors.New("it called the tool again instead of using the result")
	}
	return "", fmt.Errorf("the tool's result was %s, and it answers %s", e.code, quote(final.text()))
}

// withResults returns a request with a reply and the results of its calls added.
func (e *exam) withResults(req agent.ModelRequest, a *answer) agent.ModelRequest {
	var results []agent.Block
	for _, c := range agent.ToolCalls(a.reply.Blocks) {
		results = append(results, agent.Block{
			Type: agent.BlockToolResult, ToolCallID: c.ID, Name: c.Name, Status: agent.ResultSuccess, Output: json.RawMessage(`{"code":"` + e.code + `"}`),
		})
	}
	req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: a.reply.Blocks}, agent.Message{Role: agent.RoleTool, Blocks: results})
	return req
}

func (e *exam) checkParallelCalls(ctx context.Context) (string, error) {
	a, err := e.ask(ctx, e.request("What are the codes of Lisbon and of Oslo? Only the tool "+toolName+
		" knows them. Call it for both cities at once, in one reply, before you answer.", tool()))
	if err != nil {
		return "", err
	}
	calls, err := readCalls(&a)
	if err != nil {
		return "", err
	}
	if len(calls) == 1 {
		return "", skipReason("it makes one call at a time")
	}
	isUsed := map[agent.CallID]bool{}
	for _, c := range calls {
		if c.ID == "" || isUsed[c.ID] {
			return "", fmt.Errorf("%d calls share the id %q: their results cannot be told apart", len(calls), c.ID)
		}
		isUsed[c.ID] = true
	}
	return fmt.Sprintf("%d calls", len(calls)), nil
}
