package langchain

import (
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
		for _, call := range c.ToolCalls {
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
	switch reason {
	case "length", "max_tokens":
		return agent.FinishLength
	case "tool_calls", "tool_use":
		return agent.FinishToolCalls
	case "content_filter", "refusal":
		return agent.FinishContentFilter
	default:
		return agent.FinishStop
	}
}

// usageOf reads the counts under the names that langchaingo's clients give them. Anthropic's cached tokens come beside the input
// tokens, all others within them.
func usageOf(info map[string]any) agent.Usage {
	count := func(name string) int64 {
		n, _ := info[name].(int)
		return int64(n)
	}
	beside := count("CacheReadInputTokens")
	return agent.Usage{
		InputTokens:     count("PromptTokens") + count("InputTokens") + beside + count("CacheCreationInputTokens"),
		OutputTokens:    count("CompletionTokens") + count("OutputTokens"),
		CachedTokens:    beside + count("PromptCachedTokens"),
		ReasoningTokens: count("ReasoningTokens"),
	}
}
