package orchestrator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// Defaults of a [Config].
const (
	DefaultAttempts = 5
	DefaultTimeout  = 10 * time.Second
	DefaultPatience = time.Minute
	maxPause        = 20 * time.Second
	firstPause      = 200 * time.Millisecond
)

// Bounds of requests and answers, in bytes.
const (
	maxRequest = 512 << 10
	maxAnswer  = 8 << 20
)

// Config is the configuration of a [Client].
type Config struct {
	API      string           // e.g. http://localhost:8081/api/v1
	HTTP     tool.HTTP        // must be allowed to reach it
	Auth     tool.Auth        // nil: requests carry no credentials
	Profiles []agent.PlanAuth // Auth takes the first that fits the host
	// TenantHeader is the name of the header that carries the tenant; empty: the orchestrator has only one tenant.
	TenantHeader string

	Attempts uint          // of a request; 0: 5
	Timeout  time.Duration // of an attempt; 0: 10 s
	Patience time.Duration // of all attempts and pauses; 0: 1 min
}

// Client is a [tool.Workflows]. It is safe for concurrent use.
type Client struct {
	cfg    Config
	api    *url.URL
	pauses func() backoff.BackOff
}

// New returns a Client. It checks the configuration and sets defaults.
func New(cfg Config) (*Client, error) {
	api, err := url.Parse(cfg.API)
	switch {
	case err != nil || api.Host == "" || api.Scheme != "http" && api.Scheme != "https":
		return nil, agent.Invalid("api_url", "want an http or https URL with a host")
	case api.User != nil || api.RawQuery != "" || api.Fragment != "":
		return nil, agent.Invalid("api_url", "want no credentials, no query and no fragment")
	case cfg.HTTP == nil:
		return nil, agent.Invalid("http", "is required")
	case len(cfg.Profiles) > 0 && cfg.Auth == nil:
		return nil, agent.Invalid("auth", "is required for auth profiles")
	case cfg.TenantHeader != "" && !httpguts.ValidHeaderFieldName(cfg.TenantHeader):
		return nil, agent.Invalid("tenant_header", "is no name of a header")
	case cfg.Timeout < 0 || cfg.Patience < 0:
		return nil, agent.Invalid("timeout", "is negative")
	}
	cfg.Attempts = cmp.Or(cfg.Attempts, DefaultAttempts)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Patience = cmp.Or(cfg.Patience, DefaultPatience)
	return &Client{cfg: cfg, api: api, pauses: func() backoff.BackOff {
		b := backoff.NewExponentialBackOff()
		b.InitialInterval, b.MaxInterval = firstPause, maxPause
		return b
	}}, nil
}

// patchBody is the body of a patch request.
type patchBody struct {
	Operations  json.RawMessage `json:"operations"`
	Description string          `json:"description,omitempty"`
	Owner       string          `json:"workflow_owner,omitempty"`
	BaseVersion int64           `json:"base_version,omitempty"`
	DryRun      bool            `json:"dry_run,omitempty"`
}

// PatchWorkflow has the orchestrator patch a definition. Its errors are [agent.CodeInvalid], [agent.CodeOverflow] and [agent.CodeDenied] with the
// orchestrator's message; [agent.CodeConflict] with Field "base_version"; [agent.CodeNotFound] with Field "workflow_tag";
// [agent.CodeUnavailable] and [agent.CodeRateLimited] after the last attempt; the context's.
func (c *Client) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	body, err := encodePatch(&r)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	headers := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {r.Idempotency}}
	if r.Idempotency == "" || !httpguts.ValidHeaderFieldValue(r.Idempotency) {
		headers.Set("Idempotency-Key", idempotencyKey(r.Tenant, r.Idempotency))
	}
	if r.BaseVersion > 0 {
		headers.Set("If-Match", strconv.Quote(strconv.FormatInt(r.BaseVersion, 10)))
	}
	c.setTenant(headers, r.Tenant)
	u := *c.api
	u.Path = strings.TrimSuffix(u.Path, "/") + "/workflows/" + r.Tag + ":patch"
	var out patchAnswer
	err = c.sendWithRetry(ctx, "patch workflow "+r.Tag, func(ctx context.Context) (*http.Request, error) {
		return newRequest(ctx, http.MethodPost, u.String(), headers, body)
	}, &out)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == codeUnsupported {
		e.Code = agent.CodeInvalid
	}
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return out.result(&r)
}

// encodePatch checks a request and returns its body.
func encodePatch(r *agent.WorkflowPatchRequest) ([]byte, error) {
	switch {
	case r.Tag == "":
		return nil, agent.Invalid("workflow_tag", "is required")
	case strings.ContainsAny(r.Tag, "/:") || r.Tag == "." || r.Tag == "..":
		return nil, agent.Invalid("workflow_tag", "%.100q is no name", r.Tag)
	case r.Revert != "":
		return nil, agent.Invalid("revert_of", "patches of an orchestrator are taken back there")
	}
	body, err := json.Marshal(patchBody{
		Operations: r.Operations, Description: r.Description, Owner: r.Owner, BaseVersion: r.BaseVersion, DryRun: r.DryRun,
	})
	switch {
	case err != nil:
		return nil, agent.Invalid("operations", "are no JSON")
	case len(body) > maxRequest:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "operations", "make a request of %d bytes, at most %d", len(body), maxRequest)
	}
	return body, nil
}

// idempotencyKey returns the key of a request that has none (a new one), or one that a header cannot hold.
func idempotencyKey(tenant, key string) string {
	if key == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("turnstone:patch:"+tenant+"\x00"+key)).String()
}

// setTenant adds the header with the tenant if the orchestrator expects one.
func (c *Client) setTenant(headers http.Header, tenant string) {
	if c.cfg.TenantHeader != "" {
		headers.Set(c.cfg.TenantHeader, cmp.Or(tenant, agent.DefaultTenant))
	}
}

// newRequest returns a request with the given headers.
func newRequest(ctx context.Context, method, target string, headers http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, agent.Invalid("api_url", "%w", err)
	}
	req.Header = headers.Clone()
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// patchAnswer is the orchestrator's answer to a patch.
type patchAnswer struct {
	PatchID     string  `json:"patch_id"`
	Tag         string  `json:"workflow_tag"`
	Owner       string  `json:"workflow_owner"`
	Version     version `json:"version"`
	BaseVersion version `json:"base_version"`
	Hash        string  `json:"hash"`
	Unchanged   bool    `json:"unchanged"`
}

// version is a version number that may be written as a string: 7, "7", "v7".
type version int64

// UnmarshalJSON never fails: a value that is no number is 0.
func (v *version) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(strings.TrimPrefix(strings.Trim(string(raw), `"`), "v"), 10, 64)
	if err == nil {
		*v = version(n)
	}
	return nil
}

// result returns the answer as the result of the request.
func (a *patchAnswer) result(r *agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if a.PatchID == "" && !r.DryRun {
		return agent.WorkflowPatchResult{}, agent.Errorf(agent.CodeInternal, "patch workflow "+r.Tag, "the orchestrator answered without a patch_id")
	}
	return agent.WorkflowPatchResult{
		WorkflowKey: agent.WorkflowKey{Tenant: r.Tenant, Owner: cmp.Or(a.Owner, r.Owner), Tag: cmp.Or(a.Tag, r.Tag)},
		PatchID:     a.PatchID, Version: int64(a.Version), BaseVersion: cmp.Or(int64(a.BaseVersion), r.BaseVersion), Hash: a.Hash, Unchanged: a.Unchanged,
	}, nil
}

// ListWorkflows returns the orchestrator's definitions, none if it cannot list them.
func (c *Client) ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"tag": q.Tag, "owner": q.Owner, "page_token": q.Token} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Size > 0 {
		query.Set("page_size", strconv.Itoa(q.Size))
	}
	u := *c.api
	u.Path = strings.TrimSuffix(u.Path, "/") + "/workflows"
	u.RawQuery = query.Encode()
	headers := http.Header{}
	c.setTenant(headers, q.Tenant)
	var out listAnswer
	err := c.sendWithRetry(ctx, "list workflows", func(ctx context.Context) (*http.Request, error) {
		return newRequest(ctx, http.MethodGet, u.String(), headers, nil)
	}, &out)
	if slices.Contains([]agent.Code{agent.CodeNotFound, codeUnsupported}, agent.CodeOf(err)) {
		return agent.WorkflowPage{Workflows: []agent.StoredWorkflow{}}, nil
	}
	if err != nil {
		return agent.WorkflowPage{}, err
	}
	return out.page(&q)
}

// listAnswer is the orchestrator's list of definitions.
type listAnswer struct {
	Workflows []struct {
		Tag         string          `json:"workflow_tag"`
		Owner       string          `json:"workflow_owner"`
		Version     version         `json:"version"`
		Definition  json.RawMessage `json:"definition"`
		Hash        string          `json:"hash"`
		PatchID     string          `json:"patch_id"`
		Description string          `json:"description"`
	} `json:"workflows"`
	Next string `json:"next_page_token"`
}

// page returns the definitions that the query asks for: an orchestrator may ignore tag and owner of a query.
func (a *listAnswer) page(q *agent.WorkflowQuery) (agent.WorkflowPage, error) {
	page := agent.WorkflowPage{Workflows: []agent.StoredWorkflow{}, Next: a.Next}
	for _, w := range a.Workflows {
		if q.Tag != "" && w.Tag != q.Tag || q.Owner != "" && w.Owner != q.Owner {
			continue
		}
		if w.Definition == nil {
			var err error
			w.Definition, err = json.Marshal(map[string]any{"description": w.Description, "nodes": []any{}, "edges": []any{}})
			if err != nil {
				return agent.WorkflowPage{}, fmt.Errorf("list workflows: %w", err)
			}
		}
		page.Workflows = append(page.Workflows, agent.StoredWorkflow{
			WorkflowKey: agent.WorkflowKey{Tenant: q.Tenant, Owner: w.Owner, Tag: w.Tag},
			Version:     int64(w.Version), Definition: w.Definition, Hash: w.Hash, PatchID: w.PatchID,
		})
	}
	return page, nil
}
