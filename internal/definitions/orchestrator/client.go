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

// The defaults of a [Config].
const (
	DefaultAttempts = 5
	DefaultTimeout  = 10 * time.Second
	DefaultPatience = time.Minute
	maxPause        = 20 * time.Second
	firstPause      = 200 * time.Millisecond
)

// Bounds of what is sent and read.
const (
	maxRequest = 512 << 10
	maxAnswer  = 8 << 20
)

// Config is what a [Client] needs.
type Config struct {
	API      string           // e.g. http://localhost:8081/api/v1
	HTTP     tool.HTTP        // must be allowed to reach it
	Auth     tool.Auth        // nil: requests carry no credentials
	Profiles []agent.PlanAuth // of which Auth takes the first that fits the host
	// TenantHeader is the name of a header that tells the orchestrator the tenant; empty: it is not told, and must have one only.
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

// New checks the configuration.
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

// patchBody is what is posted.
type patchBody struct {
	Operations  json.RawMessage `json:"operations"`
	Description string          `json:"description,omitempty"`
	Owner       string          `json:"workflow_owner,omitempty"`
	BaseVersion int64           `json:"base_version,omitempty"`
	DryRun      bool            `json:"dry_run,omitempty"`
}

// PatchWorkflow has the orchestrator change a definition. Errors: [agent.CodeInvalid], [agent.CodeOverflow] and [agent.CodeDenied] in the
// orchestrator's words; [agent.CodeConflict] with Field "base_version"; [agent.CodeNotFound] with Field "workflow_tag";
// [agent.CodeUnavailable] and [agent.CodeRateLimited] when the attempts are used up; the context's own.
func (c *Client) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	switch {
	case r.Tag == "":
		return agent.WorkflowPatchResult{}, agent.Invalid("workflow_tag", "is required")
	case strings.ContainsAny(r.Tag, "/:") || r.Tag == "." || r.Tag == "..":
		return agent.WorkflowPatchResult{}, agent.Invalid("workflow_tag", "%.100q is no name", r.Tag)
	case r.Revert != "":
		return agent.WorkflowPatchResult{}, agent.Invalid("revert_of", "patches of an orchestrator are taken back there")
	}
	body, err := json.Marshal(patchBody{
		Operations: r.Operations, Description: r.Description, Owner: r.Owner, BaseVersion: r.BaseVersion, DryRun: r.DryRun,
	})
	switch {
	case err != nil:
		return agent.WorkflowPatchResult{}, agent.Invalid("operations", "are no JSON")
	case len(body) > maxRequest:
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeOverflow, "operations", "make a request of %d bytes, at most %d", len(body), maxRequest)
	}
	headers := http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {r.Idempotency}}
	if r.Idempotency == "" || !httpguts.ValidHeaderFieldValue(r.Idempotency) {
		headers.Set("Idempotency-Key", derived(r.Tenant, r.Idempotency))
	}
	if r.BaseVersion > 0 {
		headers.Set("If-Match", strconv.Quote(strconv.FormatInt(r.BaseVersion, 10)))
	}
	c.tell(headers, r.Tenant)
	u := *c.api
	u.Path = strings.TrimSuffix(u.Path, "/") + "/workflows/" + r.Tag + ":patch"
	var out patchAnswer
	err = c.ask(ctx, "patch workflow "+r.Tag, func(ctx context.Context) (*http.Request, error) {
		return request(ctx, http.MethodPost, u.String(), headers, body)
	}, &out)
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Code == codeAbsent {
		e.Code = agent.CodeInvalid
	}
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return out.result(&r)
}

// derived is a key for a request that has none, or one that no header may hold.
func derived(tenant, key string) string {
	if key == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("turnstone:patch:"+tenant+"\x00"+key)).String()
}

func (c *Client) tell(headers http.Header, tenant string) {
	if c.cfg.TenantHeader != "" {
		headers.Set(c.cfg.TenantHeader, cmp.Or(tenant, agent.DefaultTenant))
	}
}

func request(ctx context.Context, method, target string, headers http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, agent.Invalid("api_url", "%w", err)
	}
	req.Header = headers.Clone()
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// patchAnswer is what the orchestrator says. Versions may be numbers or texts.
type patchAnswer struct {
	PatchID     string  `json:"patch_id"`
	Tag         string  `json:"workflow_tag"`
	Owner       string  `json:"workflow_owner"`
	Version     version `json:"version"`
	BaseVersion version `json:"base_version"`
	Hash        string  `json:"hash"`
	Unchanged   bool    `json:"unchanged"`
}

// version is a number, also as a text: 7, "7", "v7".
type version int64

// UnmarshalJSON reads anything; what is no number is 0.
func (v *version) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(strings.TrimPrefix(strings.Trim(string(raw), `"`), "v"), 10, 64)
	if err == nil {
		*v = version(n)
	}
	return nil
}

func (a *patchAnswer) result(r *agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if a.PatchID == "" && !r.DryRun {
		return agent.WorkflowPatchResult{}, agent.Errorf(agent.CodeInternal, "patch workflow "+r.Tag, "the orchestrator answered without a patch_id")
	}
	return agent.WorkflowPatchResult{
		WorkflowKey: agent.WorkflowKey{Tenant: r.Tenant, Owner: cmp.Or(a.Owner, r.Owner), Tag: cmp.Or(a.Tag, r.Tag)},
		PatchID:     a.PatchID, Version: int64(a.Version), BaseVersion: cmp.Or(int64(a.BaseVersion), r.BaseVersion), Hash: a.Hash, Unchanged: a.Unchanged,
	}, nil
}

// ListWorkflows lists the orchestrator's definitions; there are none where it has no such call.
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
	c.tell(headers, q.Tenant)
	var out struct {
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
	err := c.ask(ctx, "list workflows", func(ctx context.Context) (*http.Request, error) {
		return request(ctx, http.MethodGet, u.String(), headers, nil)
	}, &out)
	if slices.Contains([]agent.Code{agent.CodeNotFound, codeAbsent}, agent.CodeOf(err)) {
		return agent.WorkflowPage{Workflows: []agent.StoredWorkflow{}}, nil
	}
	if err != nil {
		return agent.WorkflowPage{}, err
	}
	page := agent.WorkflowPage{Workflows: []agent.StoredWorkflow{}, Next: out.Next}
	for _, w := range out.Workflows {
		if q.Tag != "" && w.Tag != q.Tag || q.Owner != "" && w.Owner != q.Owner { // one that does not know these parameters lists all
			continue
		}
		if w.Definition == nil {
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
