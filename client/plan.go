package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"

	"github.com/turnstone-run/turnstone/agent"
)

// maxPlan bounds a plan's bytes.
const maxPlan = 64 << 20

// AgentPlan returns the current plan of an agent as canonical JSON, and its hash. An empty tenant is the client's.
func (c *Client) AgentPlan(ctx context.Context, tenant, name string) (body []byte, hash string, err error) {
	return c.plan(ctx, params(tenantParam, tenant), catalogPath, "agents", name, "plan")
}

// Plan returns the plan of a hash ("sha256:…") as canonical JSON; [agent.CodeNotFound] when there is none.
func (c *Client) Plan(ctx context.Context, hash string) ([]byte, error) {
	body, got, err := c.plan(ctx, nil, catalogPath, "plans", hash)
	if err == nil && got != hash {
		return nil, agent.Errorf(agent.CodeInternal, "", "the server answered with plan %s instead of %s", got, hash)
	}
	return body, err
}

// plan returns the body unchanged, and its hash.
func (c *Client) plan(ctx context.Context, query url.Values, path ...string) (body []byte, hash string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	resp, err := c.send(ctx, request{path: path, query: query})
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxPlan+1))
	switch {
	case err != nil:
		return nil, "", interrupted(ctx, fmt.Errorf("read plan: %w", err))
	case len(body) > maxPlan:
		return nil, "", agent.Errorf(agent.CodeOverflow, "", "the plan is larger than %d bytes", maxPlan)
	}
	sum := sha256.Sum256(body)
	hash = "sha256:" + hex.EncodeToString(sum[:])
	if header := resp.Header.Get("Turnstone-Plan-Hash"); header != "" && header != hash {
		return nil, "", agent.Errorf(agent.CodeInternal, "", "the server calls the plan %s, but its hash is %s", header, hash)
	}
	return body, hash, nil
}
