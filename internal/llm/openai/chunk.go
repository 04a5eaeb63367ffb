package openai

import (
	"bytes"
	"encoding/json"
)

// chunk is one chunk of a streamed completion. It has the fields that a reply needs.
type chunk struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Usage   *usage          `json:"usage"`
	Choices []choice        `json:"choices"`
}

type usage struct {
	PromptTokens        int64 `json:"prompt_tokens"`
	CompletionTokens    int64 `json:"completion_tokens"`
	PromptTokensDetails struct {
		CachedTokens int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens int64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

type choice struct {
	Index        int64  `json:"index"`
	Delta        delta  `json:"delta"`
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content          string          `json:"content"`
	Refusal          string          `json:"refusal"`
	ReasoningContent string          `json:"reasoning_content"` // from DeepSeek and vLLM
	Reasoning        string          `json:"reasoning"`         // from Ollama and OpenRouter
	Audio            *audioPart      `json:"audio"`
	ToolCalls        []callDelta     `json:"tool_calls"`
	Annotations      json.RawMessage `json:"annotations"` // from models that search the web
	Images           json.RawMessage `json:"images"`      // from some gateways
}

type audioPart struct {
	Data       string `json:"data"` // base64
	Transcript string `json:"transcript"`
}

type callDelta struct {
	Index    int64  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// isError reports whether the chunk is an error of the provider.
func (c *chunk) isError() bool { return len(c.Error) > 0 && !bytes.Equal(c.Error, []byte("null")) }

// isDone reports whether the data of an event ends the stream.
func isDone(data []byte) bool { return bytes.HasPrefix(data, []byte("[DONE]")) }
