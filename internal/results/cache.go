package results

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// Memory stores JSON by key until it expires, and keeps the content that the JSON refers to. postgres.ResultStore implements it.
type Memory interface {
	RecallResult(ctx context.Context, tenant, key string) (body json.RawMessage, ok bool, err error)
	RememberResult(ctx context.Context, tenant, key string, body json.RawMessage, ref string, ttl time.Duration) error
}

// Cache is a [tool.Results] that all processes with one database share.
type Cache struct{ Memory Memory }

// Recall returns the result for a key. ok is false if there is none.
func (c Cache) Recall(ctx context.Context, tenant, key string) (r tool.CachedResult, ok bool, err error) {
	body, ok, err := c.Memory.RecallResult(ctx, tenant, key)
	if err != nil || !ok {
		return tool.CachedResult{}, false, err
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return tool.CachedResult{}, false, agent.Errorf(agent.CodeInternal, "recall result", "decode: %w", err)
	}
	return r, true, nil
}

// Remember stores a result until ttl has passed. The error for a result without a stored dataset is [agent.CodeInvalid].
func (c Cache) Remember(ctx context.Context, tenant, key string, r tool.CachedResult, ttl time.Duration) error {
	body, err := json.Marshal(r)
	if err != nil {
		return agent.Errorf(agent.CodeInvalid, "remember result", "encode: %w", err)
	}
	if err := c.Memory.RememberResult(ctx, tenant, key, body, r.Dataset.Ref, ttl); err != nil {
		return fmt.Errorf("remember result: %w", err)
	}
	return nil
}
