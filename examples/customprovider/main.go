// Command customprovider is a Turnstone worker with a model provider of its own, "acme": a made-up service that answers with one JSON
// object a line. The worker takes the same settings as the shipped one (docs/reference/configuration.md); docs/guides/extending.md says how to try it.
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
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters once the process ends
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

// acme is the provider: what llm.provider and a ModelProfile name.
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
	web      *http.Client // bounds silence and size, and turns a refusal into an agent.Error
	url, key string
}

// request is what the service takes. It reads messages, blocks and tools as this runtime writes them.
type request struct {
	Model     string           `json:"model"`
	System    string           `json:"system,omitempty"`
	Messages  []agent.Message  `json:"messages"`
	Tools     []agent.ToolSpec `json:"tools,omitempty"`
	MaxTokens int              `json:"max_tokens,omitempty"`
}

// line is a piece of its answer; one field is set.
type line struct {
	Text string       `json:"text"`
	Call *agent.Block `json:"call"` // whole, of type tool_call
	End  *struct {
		Reason agent.FinishReason `json:"reason"`
		Usage  agent.Usage        `json:"usage"`
	} `json:"end"`
}

// Generate makes one request and never repeats it: that is the middleware model_retry's.
func (m *model) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	body, err := m.send(ctx, request{
		Model: req.Model, System: req.SystemPrompt(), Messages: req.Messages, Tools: req.Tools, MaxTokens: req.MaxTokens,
	})
	if err != nil {
		return agent.ModelReply{}, err
	}
	defer body.Close() //nolint:errcheck // read to its end, or given up
	reply := agent.ModelReply{Model: req.Model}
	var text strings.Builder
	for lines := json.NewDecoder(body); ; {
		var l line
		if err := lines.Decode(&l); err != nil { // a cut connection, too: never a short success
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

func (m *model) send(ctx context.Context, asked request) (io.ReadCloser, error) {
	body, err := json.Marshal(asked)
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

// failure is what the client has found out about a failure; anything else may be tried again.
func failure(err error) error {
	if known, ok := errors.AsType[*agent.Error](err); ok {
		return known
	}
	return agent.Errorf(agent.CodeUnavailable, "call model", "acme: %w", err)
}
