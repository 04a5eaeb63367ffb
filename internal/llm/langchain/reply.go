package langchain

import (
	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// newReply returns a reply of all choices. The Anthropic client returns a choice for each content block, the others return one choice.
func newReply(res *llms.ContentResponse) agent.ModelReply {
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

// reasoningOf returns the reasoning of a choice. "ThinkingContent" is reasoning only if the choice has no text; else it repeats a part of that text.
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

// usageOf returns the usage from the names that langchaingo's clients use. Anthropic does not count cached tokens as input tokens; the others do.
func usageOf(info map[string]any) agent.Usage {
	count := func(name string) int64 {
		n, _ := info[name].(int)
		return int64(n)
	}
	cacheReads := count("CacheReadInputTokens")
	return agent.Usage{
		InputTokens:     count("PromptTokens") + count("InputTokens") + cacheReads + count("CacheCreationInputTokens"),
		OutputTokens:    count("CompletionTokens") + count("OutputTokens"),
		CachedTokens:    cacheReads + count("PromptCachedTokens"),
		ReasoningTokens: count("ReasoningTokens"),
	}
}
