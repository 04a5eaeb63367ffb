package mcp

import (
	"context"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// The bounds of a server's list of tools.
const (
	maxTools   = 1000
	maxPages   = 100
	maxSchemas = 1 << 20  // bytes of all schemas together
	maxSchema  = 64 << 10 // bytes of one
	// listAge is how long a list stands that the server would tell us changes of, and mutedAge one that it would not.
	listAge  = 5 * time.Minute
	mutedAge = 30 * time.Second
	// listPatience bounds the question for all pages.
	listPatience = 20 * time.Second
)

// toolList is what a server has, as far as it can be used.
type toolList struct {
	tools   []serverTool
	at      time.Time
	changes int64 // how many changes the server had told before it was asked
}

// list returns the server's tools, remembered while nothing has changed.
func (s *session) list(ctx context.Context) ([]serverTool, error) {
	select { // one asks, the others get its answer
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "list MCP tools")
	}
	if s.tools != nil && s.current(s.tools) {
		return s.tools.tools, nil
	}
	ctx, cancel := s.within(ctx, listPatience)
	defer cancel()
	l := &toolList{at: time.Now(), changes: s.changes.Load()}
	raw, err := s.pages(ctx)
	if err != nil {
		return nil, err
	}
	s.proven.Store(true)
	l.tools = s.usable(raw)
	s.tools = l
	return l.tools, nil
}

// known returns the tools without asking the server; ok is false when it would have to be asked.
func (s *session) known() (tools []serverTool, ok bool) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	default:
		return nil, false
	}
	if s.tools == nil || !s.current(s.tools) {
		return nil, false
	}
	return s.tools.tools, true
}

func (s *session) current(l *toolList) bool {
	age := mutedAge
	if caps := s.client.InitializeResult().Capabilities; caps != nil && caps.Tools != nil && caps.Tools.ListChanged && !s.link.deaf() {
		age = listAge
	}
	return l.changes == s.changes.Load() && time.Since(l.at) < age
}

// pages asks for page after page, up to the bounds.
func (s *session) pages(ctx context.Context) ([]*sdk.Tool, error) {
	if caps := s.client.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil // a server without tools need not know the question
	}
	var all []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		d := &delivery{}
		page, err := s.client.ListTools(withDelivery(ctx, d), params)
		if err != nil {
			fault := s.fault(ctx, d, err)
			if _, ok := answered(err); !ok && ctx.Err() == nil {
				s.suspect(d, err)
			}
			return nil, fault
		}
		all = append(all, page.Tools...)
		if len(all) > maxTools {
			s.logger.Warn("MCP server has too many tools: the rest is left out", zap.Int("kept", maxTools))
			return all[:maxTools], nil
		}
		if page.NextCursor == "" || page.NextCursor == params.Cursor {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	s.logger.Warn("MCP server has too many pages of tools: the rest is left out", zap.Int("kept", len(all)))
	return all, nil
}

// usable turns what the server has into what we offer. What cannot be offered is logged and left out.
func (s *session) usable(raw []*sdk.Tool) []serverTool {
	out := make([]serverTool, 0, len(raw))
	seen := make(map[string]bool, len(raw))
	total := 0
	for _, t := range raw {
		if t == nil || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		made, why := newServerTool(t, s.label, s.link.hidden)
		if why == "" && s.link.tasks.has(t.Name) {
			why = "it runs as a task only, which is not supported"
		}
		if why == "" && total+len(made.schema) > maxSchemas {
			why = "the schemas of all tools together are too large"
		}
		if why != "" {
			s.logger.Warn("MCP tool is left out", zap.String("tool", s.link.hidden.plain(t.Name, maxServerName)), zap.String("reason", why))
			continue
		}
		total += len(made.schema)
		out = append(out, made)
	}
	return out
}
