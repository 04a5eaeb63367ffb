package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// cacheVersion is a part of every key: it changes when the same pipeline comes to mean something else.
const cacheVersion = "execute_pipeline/1"

// cacheKey names what a call computes: the pipeline, what it reads and as whom. The session is no part of it. Numbers are as they were
// written, unlike in RFC 8785, where 9007199254740993 and 9007199254740992 are the same. Empty: the call is not to be remembered;
// what is cleaned for one agent would not do for another.
func (r *run) cacheKey(p *program) string {
	if r.inv.Redact != nil || r.cfg.Results == nil || r.cfg.Blobs == nil || r.cfg.Datasets == nil || r.cfg.CacheTTL <= 0 || p.hasEffects() {
		return ""
	}
	raw, err := json.Marshal(struct {
		Meaning  string            `json:"meaning"`
		Pipeline []json.RawMessage `json:"pipeline"`
		InputRef string            `json:"input_ref"`
		MaxRows  int               `json:"max_rows"`
		MaxBytes int64             `json:"max_bytes"`
		Auth     []agent.PlanAuth  `json:"auth"` // references, no secrets
	}{cacheVersion, p.source, p.inputRef, r.cfg.MaxRows, r.cfg.MaxBytes, r.inv.Auth})
	if err != nil {
		return ""
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// recall answers from the cache, or returns false. A cache that is down counts as empty.
func (r *run) recall(ctx context.Context, key string) (agent.ToolResult, bool) {
	if key == "" {
		return agent.ToolResult{}, false
	}
	hit, ok, err := r.cfg.Results.Recall(ctx, r.inv.Tenant, key)
	if err != nil {
		r.log("recall a result", err)
		return agent.ToolResult{}, false
	}
	if !ok || hit.Dataset.Ref == "" || !json.Valid(hit.Preview) || !json.Valid(hit.Report) {
		return agent.ToolResult{}, false
	}
	o := &outcome{dataset: hit.Dataset, preview: hit.Preview, report: hit.Report, cached: true}
	rows, err := r.reread(ctx, o)
	if err != nil {
		r.log("read a remembered result", err)
		return agent.ToolResult{}, false
	}
	res, err := o.answer(rows)
	if err != nil {
		return agent.ToolResult{}, false
	}
	r.inv.Report("answered out of the cache: " + count(hit.Dataset.RowCount))
	return res, true
}

// reread returns the rows of a stored result if the output has room for them, else nil.
func (r *run) reread(ctx context.Context, o *outcome) (json.RawMessage, error) {
	rc, err := r.cfg.Datasets.Open(ctx, r.inv.Tenant, o.dataset.Ref)
	if err != nil {
		return nil, err
	}
	defer rc.Close() //nolint:errcheck // nothing is lost: it was read
	room := max(r.room(o), 0)
	rows, err := io.ReadAll(io.LimitReader(rc, room+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(rows)) > room:
		return nil, nil
	case !json.Valid(rows):
		return nil, agent.Errorf(agent.CodeInternal, "call "+ToolName, "the remembered dataset is no JSON")
	default:
		return rows, nil
	}
}

// remember keeps a result for later calls that are equal.
func (r *run) remember(ctx context.Context, key string, o *outcome) {
	if key == "" || o.dataset.Ref == "" {
		return
	}
	kept := tool.CachedResult{Dataset: o.dataset, Preview: o.preview, Report: o.report}
	if err := r.cfg.Results.Remember(ctx, r.inv.Tenant, key, kept, r.cfg.CacheTTL); err != nil {
		r.log("remember a result", err)
	}
}

func (r *run) log(what string, err error) {
	if r.cfg.Logger != nil {
		r.cfg.Logger.Warn("result cache", zap.String("op", what), zap.Error(err))
	}
}

// cacheTTL returns how long results are remembered: as configured, or shorter as the binding says.
func cacheTTL(configured time.Duration, binding *int) time.Duration {
	if binding == nil {
		return configured
	}
	return min(configured, time.Duration(*binding)*time.Second)
}
