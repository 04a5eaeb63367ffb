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
	// listAge is how long a list is used if the server notifies of changes, listAgeWithoutNotices if it does not.
	listAge               = 5 * time.Minute
	listAgeWithoutNotices = 30 * time.Second
	// listTimeout is the time for all pages.
	listTimeout = 20 * time.Second
)

// toolList holds the tools of a server that can be used.
type toolList struct {
	tools     []serverTool
	fetchedAt time.Time
	changes   int64 // the changes that the server had reported before it was asked
}

// list returns the server's tools. It asks the server only if its tools may have changed.
func (s *session) list(ctx context.Context) ([]serverTool, error) {
	select { // one caller asks, and the others get its answer
	case s.listing <- struct{}{}:
		defer func() { <-s.listing }()
	case <-ctx.Done():
		return nil, agent.Interrupted(ctx, "list MCP tools")
	}
	if s.tools != nil && s.isCurrent(s.tools) {
		return s.tools.tools, nil
	}
	ctx, cancel := s.withTimeout(ctx, listTimeout)
	defer cancel()
	l := &toolList{fetchedAt: time.Now(), changes: s.changes.Load()}
	raw, err := s.fetchPages(ctx)
	if err != nil {
		return nil, err
	}
	s.proven.Store(true)
	l.tools = s.offerableTools(raw)
	s.tools = l
	return l.tools, nil
}

// cachedTools returns the tools without asking the server. It returns false if the server has to be asked.
func (s *session) cachedTools() (tools []serverTool, ok bool) {
	select {
	case s.listing <- struct{}{}:
		defer func() { <-s.listing }()
	default:
		return nil, false
	}
	if s.tools == nil || !s.isCurrent(s.tools) {
		return nil, false
	}
	return s.tools.tools, true
}

func (s *session) isCurrent(l *toolList) bool {
	age := listAgeWithoutNotices
	if caps := s.client.InitializeResult().Capabilities; caps != nil && caps.Tools != nil && caps.Tools.ListChanged && !s.link.mayMissNotices() {
		age = listAge
	}
	return l.changes == s.changes.Load() && time.Since(l.fetchedAt) < age
}

// fetchPages fetches the pages of the server's list, up to the bounds.
func (s *session) fetchPages(ctx context.Context) ([]*sdk.Tool, error) {
	if caps := s.client.InitializeResult().Capabilities; caps == nil || caps.Tools == nil {
		return nil, nil // a server without tools need not support tools/list
	}
	var all []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		d := &delivery{}
		page, err := s.client.ListTools(withDelivery(ctx, d), params)
		if err != nil {
			fault := s.faultOf(ctx, d, err)
			if _, ok := serverErrorIn(err); !ok && ctx.Err() == nil {
				s.retireAfter(d, err)
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

// offerableTools returns the tools that can be offered. The others are logged and left out.
func (s *session) offerableTools(raw []*sdk.Tool) []serverTool {
	out := make([]serverTool, 0, len(raw))
	seen := make(map[string]bool, len(raw))
	total := 0
	for _, t := range raw {
		if t == nil || seen[t.Name] {
			continue
		}
		seen[t.Name] = true
		offered, reason := newServerTool(t, s.label, s.link.secrets)
		if reason == "" && s.link.tasks.contains(t.Name) {
			reason = "it runs as a task only, which is not supported"
		}
		if reason == "" && total+len(offered.schema) > maxSchemas {
			reason = "the schemas of all tools together are too large"
		}
		if reason != "" {
			s.logger.Warn("MCP tool is left out", zap.String("tool", s.link.secrets.displayText(t.Name, maxServerName)), zap.String("reason", reason))
			continue
		}
		total += len(offered.schema)
		out = append(out, offered)
	}
	return out
}
