package openai

import "github.com/turnstone-run/turnstone/agent"

// fullAnswer is the body of an answer that is not streamed (chat.completion).
type fullAnswer struct {
	ID                string   `json:"id"`
	Object            string   `json:"object"`
	Created           int64    `json:"created"`
	Model             string   `json:"model"`
	Choices           []choice `json:"choices"`
	Usage             usage    `json:"usage"`
	SystemFingerprint *string  `json:"system_fingerprint"` // always null: one answer may come from several models
}

type choice struct {
	Index        int     `json:"index"`
	Message      message `json:"message"`
	Logprobs     *string `json:"logprobs"` // always null
	FinishReason string  `json:"finish_reason"`
}

type message struct {
	Role      string  `json:"role"`
	Content   string  `json:"content"`
	Reasoning string  `json:"reasoning_content,omitempty"`
	Refusal   *string `json:"refusal"` // always null: a refusal is part of the content

	ToolCalls []toolCall `json:"tool_calls,omitempty"` // of the client's tools
}

// chunk is one event of a streamed answer (chat.completion.chunk).
type chunk struct {
	ID                string        `json:"id"`
	Object            string        `json:"object"`
	Created           int64         `json:"created"`
	Model             string        `json:"model"`
	SystemFingerprint *string       `json:"system_fingerprint"`
	Choices           []chunkChoice `json:"choices"`
	Usage             *usage        `json:"usage,omitempty"`
}

type chunkChoice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	Logprobs     *string `json:"logprobs"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`

	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type usage struct {
	PromptTokens     int64             `json:"prompt_tokens"`
	CompletionTokens int64             `json:"completion_tokens"`
	TotalTokens      int64             `json:"total_tokens"`
	PromptDetails    promptDetails     `json:"prompt_tokens_details"`
	Completion       completionDetails `json:"completion_tokens_details"`
}

type promptDetails struct {
	CachedTokens int64 `json:"cached_tokens"`
}

type completionDetails struct {
	ReasoningTokens int64 `json:"reasoning_tokens"`
}

// usageOf returns u in the API's format.
func usageOf(u agent.Usage) usage {
	return usage{
		PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
		PromptDetails: promptDetails{u.CachedTokens}, Completion: completionDetails{u.ReasoningTokens},
	}
}

// fullAnswer returns the whole answer from the state after the last event.
func (c *completion) fullAnswer(s *answerState) fullAnswer {
	m := message{Role: "assistant", Content: s.content(c.q.structured)}
	if !s.reasoning.isUncertain {
		m.Reasoning = s.reasoning.text()
	}
	if s.waitsForClient() {
		m.ToolCalls = c.toolCalls(s)
	}
	return fullAnswer{
		ID: c.id(), Object: "chat.completion", Created: c.created, Model: c.q.model, Usage: c.usage(s),
		Choices: []choice{{Message: m, FinishReason: s.finishReason()}},
	}
}

// chunk returns a chunk with choices, which may be empty.
func (c *completion) chunk(choices ...chunkChoice) *chunk {
	if choices == nil {
		choices = []chunkChoice{}
	}
	return &chunk{ID: c.id(), Object: "chat.completion.chunk", Created: c.created, Model: c.q.model, Choices: choices}
}

// additionChunk returns a chunk with the text that an event added.
func (c *completion) additionChunk(a addition) *chunk {
	d := delta{Reasoning: a.reasoning}
	if a.text != "" {
		d.Content = &a.text
	}
	return c.chunk(chunkChoice{Delta: d})
}
