package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// plansFolder separates compiled plans from the content of tenants. Running turns refer to plans, but no reference to them is counted.
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

// PlanBytes returns the bytes of a plan by its hash, sha256:<hex>, and verifies the hash. The error is [agent.CodeNotFound] if there is no such plan.
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
