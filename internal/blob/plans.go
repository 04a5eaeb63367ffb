package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// plansFolder separates compiled plans from what tenants store: running turns refer to plans, no result does.
	plansFolder  = ".plans"
	maxPlanBytes = 8 << 20
)

// SavePlan stores the bytes of a compiled plan and returns their reference, cas://<hash>.
func (s *Store) SavePlan(ctx context.Context, body []byte) (uri string, err error) {
	if len(body) > maxPlanBytes {
		return "", agent.Errorf(agent.CodeOverflow, "save plan", "%d bytes, at most %d", len(body), maxPlanBytes)
	}
	return s.Put(ctx, plansFolder, bytes.NewReader(body))
}

// PlanBytes returns the bytes of a plan by its hash, sha256:<hex>. The error is [agent.CodeNotFound] if there are none; bytes with another
// hash are an error, too.
func (s *Store) PlanBytes(ctx context.Context, hash string) ([]byte, error) {
	r, err := s.Open(ctx, plansFolder, "cas://"+hash)
	if err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	defer r.Close() //nolint:errcheck // read-only
	body, err := io.ReadAll(io.LimitReader(r, maxPlanBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read plan %s: %w", hash, err)
	}
	return body, nil
}
