// Command customprovider is a Turnstone worker with a custom model provider, "acme": a made-up service that answers with JSON objects, one per line. The
// worker has the same settings as the shipped one (docs/reference/configuration.md). docs/guides/extending.md says how to try it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil && !errors.Is(err, turnstone.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: env, Providers: []turnstone.Provider{acme()}})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// acme returns the provider. llm.provider and ModelProfiles refer to it by its name.
func acme() turnstone.Provider {
	return turnstone.Provider{
		Name: "acme", OwnURL: "https://models.acme.example", DocumentAddress: true,
		Open: func(cfg turnstone.ProviderConfig) (agent.Model, error) {
			if cfg.APIKey == "" {
				return nil, agent.Invalid("api_key", "is empty")
			}
			return &model{web: cfg.HTTPClient, url: cfg.BaseURL + "/generate", key: cfg.APIKey}, nil
		},
	}
}

type model struct {
	web      *http.Client // has a timeout and a size limit, and returns a refusal as an agent.Error
	url, key string
}

// request is the body of a request. The service understands this runtime's JSON for messages, blocks and tools.
type request struct {
	Model     string           `json:"model"`
	System    string           `json:"system,omitempty"`
	Messages  []agent.Message  `json:"messages"`
	Tools     []agent.ToolSpec `json:"tools,omitempty"`
	MaxTokens int              `json:"max_tokens,omitempty"`
}

// line is a line of the answer. It has one of the fields.
type line struct {
	Text string       `json:"text"`
	Call *agent.Block `json:"call"` // a complete block of type tool_call
	End  *struct {
		Reason agent.FinishReason `json:"reason"`
		Usage  agent.Usage        `json:"usage"`
	} `json:"end"`
}

// Generate makes one request. It does not retry, because the middleware model_retry does.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := m.send(ctx, request{
		Model: req.Model, System: req.SystemPrompt(), Messages: req.Messages, Tools: req.Tools, MaxTokens: req.MaxTokens,
	})
	if err != nil {
		return agent.ModelReply{}, err
	}
	defer body.Close() //nolint:errcheck // read-only
	reply := agent.ModelReply{Model: req.Model}
	var text strings.Builder
	for lines := json.NewDecoder(body); ; {
		var l line
		if err := lines.Decode(&l); err != nil { // also if the connection is lost, so that no incomplete reply succeeds
			return agent.ModelReply{}, failure(err)
		}
		text.WriteString(l.Text)
		if l.Text != "" {
			if err := emit(agent.Delta{Text: l.Text}); err != nil {
				return agent.ModelReply{}, err
			}
		}
		if l.Call != nil {
			reply.Blocks = append(reply.Blocks, *l.Call)
		}
		if l.End != nil {
			reply.FinishReason, reply.Usage = l.End.Reason, l.End.Usage
			break
		}
	}
	if text.Len() > 0 {
		reply.Blocks = append([]agent.Block{agent.Text(text.String())}, reply.Blocks...)
	}
	return reply, nil
}

func (m *model) send(ctx context.Context, r request) (io.ReadCloser, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+m.key)
	res, err := m.web.Do(req)
	if err != nil {
		return nil, failure(err)
	}
	return res.Body, nil
}

// failure returns the client's error for a refusal, and any other error as one that can be retried.
func failure(err error) error {
	if refusal, ok := errors.AsType[*agent.Error](err); ok {
		return refusal
	}
	return agent.Errorf(agent.CodeUnavailable, "call model", "acme: %w", err)
}
