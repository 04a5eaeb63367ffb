package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// cacheVersion is a part of every key. It is raised if a change of the code changes the result of a pipeline.
const cacheVersion = "execute_pipeline/1"

// cacheKey returns the hash of the pipeline, its input, its bounds and the names of its credentials; the session does not matter. Numbers
// keep their digits, unlike in RFC 8785, which makes 9007199254740993 and 9007199254740992 the same. The key is empty if the result must not
// be cached, for example because it is redacted for one agent only.
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

// cachedResult returns the cached result of a key. A cache that is not available counts as empty.
func (r *run) cachedResult(ctx context.Context, key string) (agent.ToolResult, bool) {
	if key == "" {
		return agent.ToolResult{}, false
	}
	hit, ok, err := r.cfg.Results.Recall(ctx, r.inv.Tenant, key)
	if err != nil {
		r.logCacheError("recall a result", err)
		return agent.ToolResult{}, false
	}
	if !ok || hit.Dataset.Ref == "" || !json.Valid(hit.Preview) || !json.Valid(hit.Report) {
		return agent.ToolResult{}, false
	}
	o := &outcome{dataset: hit.Dataset, preview: hit.Preview, report: hit.Report, cached: true}
	rows, err := r.readStored(ctx, o)
	if err != nil {
		r.logCacheError("read a cached result", err)
		return agent.ToolResult{}, false
	}
	res, err := r.answer(o, rows)
	if err != nil {
		return agent.ToolResult{}, false
	}
	r.inv.Report("answered out of the cache: " + quantity(hit.Dataset.RowCount, "row"))
	return res, true
}

// readStored returns the rows of a stored result if the output has room for them, else nil.
func (r *run) readStored(ctx context.Context, o *outcome) (json.RawMessage, error) {
	rc, err := r.cfg.Datasets.Open(ctx, r.inv.Tenant, o.dataset.Ref)
	if err != nil {
		return nil, err
	}
	defer rc.Close() //nolint:errcheck // nothing is lost: it was read
	maxBytes := max(r.maxInlineRows(o), 0)
	rows, err := io.ReadAll(io.LimitReader(rc, maxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(rows)) > maxBytes:
		return nil, nil
	case !json.Valid(rows):
		return nil, agent.Errorf(agent.CodeInternal, "call "+ToolName, "the remembered dataset is no JSON")
	default:
		return rows, nil
	}
}

// cacheResult caches a result for later calls with the same key.
func (r *run) cacheResult(ctx context.Context, key string, o *outcome) {
	if key == "" || o.dataset.Ref == "" {
		return
	}
	kept := tool.CachedResult{Dataset: o.dataset, Preview: o.preview, Report: o.report}
	if err := r.cfg.Results.Remember(ctx, r.inv.Tenant, key, kept, r.cfg.CacheTTL); err != nil {
		r.logCacheError("remember a result", err)
	}
}

func (r *run) logCacheError(op string, err error) {
	r.cfg.Logger.Warn("result cache", zap.String("op", op), zap.Error(err))
}
