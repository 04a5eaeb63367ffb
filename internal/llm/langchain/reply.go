package langchain

import (
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// replyOf joins the choices: Anthropic's client makes one of every content block, and every other is asked for one.
func replyOf(res *llms.ContentResponse) agent.ModelReply {
	reply := agent.ModelReply{Usage: usageOf(res.Choices[0].GenerationInfo)}
	for _, c := range res.Choices {
		if reasoning, ok := reasoningOf(c); ok {
			reply.Blocks = append(reply.Blocks, reasoning)
		}
		if c.Content != "" {
			reply.Blocks = append(reply.Blocks, agent.Text(c.Content))
		}
		calls := c.ToolCalls
		if len(calls) == 0 && c.FuncCall != nil {
			calls = []llms.ToolCall{{FunctionCall: c.FuncCall}}
		}
		for _, call := range calls {
			if call.FunctionCall != nil {
				reply.Blocks = append(reply.Blocks, wire.ToolCall(call.ID, call.FunctionCall.Name, call.FunctionCall.Arguments))
			}
		}
	}
	reply.FinishReason = finishOf(res.Choices[0].StopReason)
	if reply.FinishReason == agent.FinishStop && len(agent.ToolCalls(reply.Blocks)) > 0 {
		reply.FinishReason = agent.FinishToolCalls
	}
	return reply
}

// reasoningOf finds reasoning where clients put it. Beside a text, "ThinkingContent" repeats a part of that text.
func reasoningOf(c *llms.ContentChoice) (agent.Block, bool) {
	b := agent.Block{Type: agent.BlockReasoning, Reasoning: c.ReasoningContent}
	if b.Reasoning == "" && c.Content == "" {
		b.Reasoning, _ = c.GenerationInfo["ThinkingContent"].(string)
		b.Signature, _ = c.GenerationInfo["ThinkingSignature"].(string)
	}
	return b, b.Reasoning != ""
}

func finishOf(reason string) agent.FinishReason {
	switch strings.ToLower(strings.TrimPrefix(reason, "FinishReason")) {
	case "length", "max_tokens", "maxtokens", "model_length":
		return agent.FinishLength
	case "tool_calls", "tool_use", "function_call":
		return agent.FinishToolCalls
	case "content_filter", "content_filtered", "safety", "refusal":
		return agent.FinishContentFilter
	default:
		return agent.FinishStop
	}
}

// usageOf reads the counts under the names that langchaingo's clients give them. Anthropic's cached tokens come beside the input
// tokens, all others within them.
func usageOf(info map[string]any) agent.Usage {
	beside := count(info, "CacheReadInputTokens")
	return agent.Usage{
		InputTokens:     count(info, "PromptTokens", "InputTokens", "input_tokens") + beside + count(info, "CacheCreationInputTokens"),
		OutputTokens:    count(info, "CompletionTokens", "OutputTokens", "output_tokens"),
		CachedTokens:    beside + count(info, "PromptCachedTokens"),
		ReasoningTokens: count(info, "ReasoningTokens", "ThinkingTokens"),
	}
}

func count(info map[string]any, names ...string) int64 {
	for _, name := range names {
		switch n := info[name].(type) {
		case int:
			return int64(n)
		case int32:
			return int64(n)
		case int64:
			return n
		case float64:
			return int64(n)
		}
	}
	return 0
}
