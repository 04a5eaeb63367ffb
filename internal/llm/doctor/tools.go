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

// call asks the question that needs the tool, once.
func (e *exam) call(ctx context.Context) (*answer, error) {
	if e.called == nil && e.calledErr == nil {
		a, err := e.ask(ctx, e.request(toolQuestion, tool()))
		e.called, e.calledErr = &a, err
	}
	return e.called, e.calledErr
}

var errInvokes = skipped("the model invokes its tools itself")

func (e *exam) callIsBlock(ctx context.Context) (string, error) {
	if e.caps.InvokesTools {
		return "", errInvokes
	}
	a, err := e.call(ctx)
	if err != nil {
		return "", err
	}
	calls, err := readCalls(a)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s(%s)", calls[0].Name, calls[0].Args), nil
}

// readCalls returns the calls of a reply that ought to have some, checked.
func readCalls(a *answer) ([]agent.ToolCall, error) {
	for i := range a.reply.Blocks {
		if b := &a.reply.Blocks[i]; b.Type == agent.BlockInvalidToolCall {
			return nil, fmt.Errorf("the call of %q cannot be read: %s", b.Name, b.Error)
		}
	}
	calls, text := agent.ToolCalls(a.reply.Blocks), a.said()
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

// looksLikeCall recognises the notations in which models write calls when their server does not parse them.
func looksLikeCall(text string) bool {
	for _, mark := range []string{"<tool_call", "<function=", "[TOOL_CALLS]", `"name":"` + toolName, `"name": "` + toolName, `"city":`, toolName + `({`} {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}

func (e *exam) callAtEnd(ctx context.Context) (string, error) {
	if e.caps.InvokesTools {
		return "", errInvokes
	}
	a, err := e.call(ctx)
	switch {
	case err != nil:
		return "", err
	case len(agent.ToolCalls(a.reply.Blocks)) == 0:
		return "", errors.New("the stream ended without the call")
	case a.reply.FinishReason != agent.FinishToolCalls:
		return "", fmt.Errorf("the stream ended with %q, want %q", a.reply.FinishReason, agent.FinishToolCalls)
	case a.text != a.said():
		return "", fmt.Errorf("fragments of the call were streamed as text: %s", quote(a.text))
	}
	return string(a.reply.FinishReason), nil
}

// invokes compares what the model does with what it declares.
func (e *exam) invokes(ctx context.Context) (string, error) {
	a, err := e.call(ctx)
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
		if b.Type == agent.BlockToolResult || (b.Type == agent.BlockServerToolCall && b.Name == toolName) || b.Type == agent.BlockServerToolResult {
			return "", fmt.Errorf("it ran %q by itself, where the runtime sees neither approvals nor limits, and does not declare so", b.Name)
		}
	}
	return "it leaves them to the runtime, as it declares", nil
}

// usesResult answers the call with a word that cannot be guessed: the answer has it, or was made up.
func (e *exam) usesResult(ctx context.Context) (string, error) {
	if e.caps.InvokesTools {
		return "", errInvokes
	}
	a, err := e.call(ctx)
	if err != nil {
		return "", err
	}
	if len(agent.ToolCalls(a.reply.Blocks)) == 0 {
		return "", skipped("there was no call to answer")
	}
	if strings.Contains(a.said(), e.code) {
		return "", errors.New("it knew the code before it was told")
	}
	final, err := e.ask(ctx, e.answered(e.request(toolQuestion, tool()), a))
	if err != nil {
		return "", err
	}
	if strings.Contains(final.said(), e.code) {
		return quote(final.said()), nil
	}
	if len(agent.ToolCalls(final.reply.Blocks)) > 0 {
		return "", errors.New("it called the tool again instead of using the result")
	}
	return "", fmt.Errorf("the tool's result was %s, and it answers %s", e.code, quote(final.said()))
}

// answered continues a request with a reply and the results of its calls.
func (e *exam) answered(req agent.ModelRequest, a *answer) agent.ModelRequest {
	var results []agent.Block
	for _, c := range agent.ToolCalls(a.reply.Blocks) {
		results = append(results, agent.Block{
			Type: agent.BlockToolResult, ToolCallID: c.ID, Name: c.Name, Status: agent.ResultSuccess, Output: json.RawMessage(`{"code":"` + e.code + `"}`),
		})
	}
	req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: a.reply.Blocks}, agent.Message{Role: agent.RoleTool, Blocks: results})
	return req
}

func (e *exam) parallel(ctx context.Context) (string, error) {
	if e.caps.InvokesTools {
		return "", errInvokes
	}
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
		return "", skipped("it makes one call at a time")
	}
	seen := map[agent.CallID]bool{}
	for _, c := range calls {
		if c.ID == "" || seen[c.ID] {
			return "", fmt.Errorf("%d calls share the id %q: their results cannot be told apart", len(calls), c.ID)
		}
		seen[c.ID] = true
	}
	return fmt.Sprintf("%d calls", len(calls)), nil
}
