package mcp

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of sampling: a server's requests to a model.
const (
	maxSampling     = 4         // running requests of a session
	maxSampleTokens = 4096      // of an answer
	maxSampleParts  = 100       // messages of a prompt
	maxSampleBytes  = 256 << 10 // of a prompt
)

// Sampler asks a model on behalf of an MCP server, if a binding of the tenant allows it. The prompt comes from the server, and Profile is
// empty. The sampler accounts for the cost of the answer.
type Sampler func(ctx context.Context, tenant string, req agent.ModelRequest) (agent.ModelReply, error)

// The newest protocol drops these types, but servers still use them.
type (
	sampleRequest = sdk.CreateMessageRequest
	sampleParams  = sdk.CreateMessageParams //nolint:staticcheck // see above
	sampleResult  = sdk.CreateMessageResult //nolint:staticcheck // see above
)

// sampler answers one session's requests.
type sampler func(ctx context.Context, r *sampleRequest) (*sampleResult, error)

// sampler returns the sampler of a binding. It is nil if the binding does not allow sampling or no model is configured: the server then learns
// that sampling is not supported.
func (k *Toolkit) sampler(b *binding, tenant string) sampler {
	if b.Sampling != samplingAllow || k.cfg.Sample == nil {
		return nil
	}
	slots := make(chan struct{}, maxSampling)
	return func(ctx context.Context, r *sampleRequest) (*sampleResult, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			return nil, errors.New("too many sampling requests at once")
		}
		req, err := modelRequest(r.Params)
		if err != nil {
			return nil, err
		}
		reply, err := k.cfg.Sample(ctx, tenant, req)
		if err != nil {
			return nil, fmt.Errorf("the model could not be asked (%s)", agent.CodeOf(err)) // the server may not see the model's error
		}
		return &sampleResult{
			Role: "assistant", Model: reply.Model, StopReason: "endTurn", Content: &sdk.TextContent{Text: agent.Normalize(reply.Blocks)},
		}, nil
	}
}

// modelRequest returns a request with the texts and images of a prompt. It leaves out tools, the context of other servers and preferences for
// a model.
func modelRequest(p *sampleParams) (agent.ModelRequest, error) {
	if p == nil || len(p.Messages) == 0 || len(p.Messages) > maxSampleParts {
		return agent.ModelRequest{}, fmt.Errorf("want 1 to %d messages", maxSampleParts)
	}
	req := agent.ModelRequest{System: p.SystemPrompt, MaxTokens: maxSampleTokens}
	if p.MaxTokens > 0 && p.MaxTokens < maxSampleTokens {
		req.MaxTokens = int(p.MaxTokens)
	}
	size := len(p.SystemPrompt)
	for _, m := range p.Messages {
		if m == nil {
			return req, errors.New("a message is null")
		}
		message := agent.Message{Role: agent.RoleUser}
		if m.Role == "assistant" {
			message.Role = agent.RoleAssistant
		}
		switch c := m.Content.(type) {
		case *sdk.TextContent:
			size += len(c.Text)
			message.Blocks = []agent.Block{agent.Text(c.Text)}
		case *sdk.ImageContent:
			size += len(c.Data)
			message.Blocks = []agent.Block{{Type: agent.BlockImage, MIMEType: mediaType(c.MIMEType), Base64: base64.StdEncoding.EncodeToString(c.Data)}}
		default:
			return req, errors.New("only text and images are taken")
		}
		req.Messages = append(req.Messages, message)
	}
	if size > maxSampleBytes {
		return req, fmt.Errorf("the prompt is larger than %d bytes", maxSampleBytes)
	}
	return req, nil
}
