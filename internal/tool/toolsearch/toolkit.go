package toolsearch

import (
	"context"
	_ "embed"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The names of the toolkit and its tool in the catalog.
const (
	ToolkitName = "toolsearch"
	ToolName    = "search_tools"
)

// The bounds of a call.
const (
	MaxArgs      = 64 << 10 // bytes of arguments
	MaxQuery     = 2_000    // bytes
	MaxLimit     = 50
	DefaultLimit = 10
)

//go:embed schema.json
var schema []byte

// Config holds what the toolkit needs.
type Config struct {
	Ranking   tool.Ranking
	Workflows tool.Workflows // nil: workflows are not searched
	Logger    *zap.Logger    // nil: nothing is logged
}

// Factory returns the factory of the toolkit.
func Factory() tool.Factory {
	return tool.Factory{
		Name:  ToolkitName,
		Needs: []tool.Need{tool.NeedRanking, tool.NeedWorkflows},
		New: func(d tool.Dependencies) (agent.Toolkit, error) {
			return New(Config{Ranking: d.Ranking, Workflows: d.Workflows, Logger: d.Logger})
		},
	}
}

// New returns the toolkit. The error is [agent.CodeInvalid] if cfg has no ranking.
func New(cfg Config) (agent.Toolkit, error) {
	if cfg.Ranking == nil {
		return nil, agent.Invalid("ranking", "is required")
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return toolkit{&search{cfg}}, nil
}

type toolkit struct{ tool *search }

func (toolkit) Name() string          { return ToolkitName }
func (k toolkit) Tools() []agent.Tool { return []agent.Tool{k.tool} }

// search is the tool search_tools.
type search struct{ cfg Config }

var (
	_ agent.EffectFree = (*search)(nil)
	_ agent.Summarizer = (*search)(nil)
)

func (*search) Spec() agent.ToolSpec {
	return agent.ToolSpec{
		Name: ToolName, Description: "Search for existing composite tools and workflows", Parameters: append(json.RawMessage(nil), schema...),
		Strict: true, Idempotent: true, InherentlySafe: true, RevealsTools: true,
	}
}

// EffectFree returns true: a search changes nothing.
func (*search) EffectFree(json.RawMessage) bool { return true }

// Summarize returns the limit. The query stays out of the history.
func (*search) Summarize(args json.RawMessage) string {
	_, limit, err := parse(args)
	if err != nil {
		return "invalid arguments"
	}
	return "up to " + strconv.Itoa(limit)
}

// Call searches. If the ranking is not available, it returns an error, which the runtime may retry. If the workflows are not available, it finds
// only tools.
func (t *search) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	const op = "call " + ToolName
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.ToolResult{}, err
	}
	query, limit, err := parse(call.Args)
	if err != nil {
		return tool.FailedResult(ToolName, agent.FailureOf(err))
	}
	c, err := t.candidates(ctx, inv)
	if err != nil {
		return agent.ToolResult{}, err
	}
	found, err := t.rank(ctx, query, c.texts)
	if err != nil {
		return agent.ToolResult{}, err
	}
	out, err := c.answer(found, limit, min(tool.InlineBytes(inv), maxAnswer))
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, op, "encode answer: %w", err)
	}
	return agent.ToolResult{Output: out}, nil
}

// parse parses arguments strictly. Null counts as missing.
func parse(args json.RawMessage) (query string, limit int, err error) {
	var in struct {
		Query *string  `json:"query"`
		Limit *float64 `json:"limit"` // 3.0 is an integer in JSON Schema
	}
	if err := tool.DecodeArguments(args, MaxArgs, &in); err != nil {
		return "", 0, err
	}
	switch {
	case in.Query == nil:
		return "", 0, agent.Invalid("query", "is required")
	case strings.TrimSpace(*in.Query) == "":
		return "", 0, agent.Invalid("query", "is empty: say in a few words what the tool is to do")
	case len(*in.Query) > MaxQuery:
		return "", 0, agent.FieldErrorf(agent.CodeOverflow, "query", "is %d bytes, at most %d", len(*in.Query), MaxQuery)
	case in.Limit == nil:
		return *in.Query, DefaultLimit, nil
	case *in.Limit != math.Trunc(*in.Limit) || *in.Limit < 1:
		return "", 0, agent.Invalid("limit", "want a whole number of at least 1, got %v", *in.Limit)
	default:
		return *in.Query, int(min(*in.Limit, MaxLimit)), nil
	}
}
