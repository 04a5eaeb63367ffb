package patch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

const (
	maxTries       = 5
	attemptTimeout = 10 * time.Second
	patience       = time.Minute // for all attempts and the pauses between them

	firstPause = 200 * time.Millisecond
	maxPause   = 20 * time.Second

	maxPatchRequest       = 512 << 10 // bytes
	maxOrchestratorAnswer = 8 << 20
)

// Orchestrator forwards patches of workflow definitions to the API of an orchestrator that keeps and runs them:
//
//	POST {api}/workflows/{tag}:patch   {"operations":[…],"description":"…","workflow_owner":"…","base_version":3}
//	GET  {api}/workflows?tag=…&owner=…
//
// All attempts of a request carry the same Idempotency-Key, so that a request whose answer was lost can be repeated. A request with a base version
// carries If-Match as well. A request that fails for the moment (429, 502, 503, 504, a failed connection) is repeated, within bounds. Any other
// failure is returned with the orchestrator's message.
//
// It is a [tool.Workflows], and safe for concurrent use.
type Orchestrator struct {
	api  *url.URL
	http tool.HTTP

	tries             uint
	timeout, patience time.Duration
	pauses            func() backoff.BackOff
}

// NewOrchestrator returns an orchestrator whose API is at a URL, such as http://localhost:8081/api/v1. The HTTP client must be allowed to reach it,
// and adds credentials.
func NewOrchestrator(address string, web tool.HTTP) (*Orchestrator, error) {
	api, err := url.Parse(address)
	switch {
	case err != nil || api.Host == "" || api.Scheme != "http" && api.Scheme != "https":
		return nil, agent.Invalid("api_url", "want an http or https URL with a host")
	case api.User != nil || api.RawQuery != "" || api.Fragment != "":
		return nil, agent.Invalid("api_url", "want no credentials, no query and no fragment")
	}
	return &Orchestrator{api: api, http: web, tries: maxTries, timeout: attemptTimeout, patience: patience, pauses: func() backoff.BackOff {
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
func (o *Orchestrator) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
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
	u := *o.api
	u.Path = strings.TrimSuffix(u.Path, "/") + "/workflows/" + r.Tag + ":patch"
	var out patchAnswer
	err = o.sendWithRetry(ctx, "patch workflow "+r.Tag, func(ctx context.Context) (*http.Request, error) {
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
	case len(body) > maxPatchRequest:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "operations", "make a request of %d bytes, at most %d", len(body), maxPatchRequest)
	}
	return body, nil
}

// idempotencyKey returns a key that a header can hold, for a key that a header cannot hold. If key is empty, the new key is random.
func idempotencyKey(tenant, key string) string {
	if key == "" {
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("turnstone:patch:"+tenant+"\x00"+key)).String()
}

// newRequest returns a request with the given headers.
func newRequest(ctx context.Context, method, target string, headers http.Header, body []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, agent.Invalid("api_url", "%w", err)
	}
	maps.Copy(req.Header, headers)
	req.Header.Set("Accept", "application/json")
	return req, nil
}

// patchAnswer is the orchestrator's answer to a patch.
type patchAnswer struct {
	PatchID     string       `json:"patch_id"`
	Tag         string       `json:"workflow_tag"`
	Owner       string       `json:"workflow_owner"`
	Version     looseVersion `json:"version"`
	BaseVersion looseVersion `json:"base_version"`
	Hash        string       `json:"hash"`
	Unchanged   bool         `json:"unchanged"`
}

// looseVersion is a version number that may be written as a string: 7, "7", "v7".
type looseVersion int64

// UnmarshalJSON never fails: a value that is no number is 0.
func (v *looseVersion) UnmarshalJSON(raw []byte) error {
	n, err := strconv.ParseInt(strings.TrimPrefix(strings.Trim(string(raw), `"`), "v"), 10, 64)
	if err == nil {
		*v = looseVersion(n)
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

// ListWorkflows returns the orchestrator's definitions. It returns none if the orchestrator does not support lists.
func (o *Orchestrator) ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"tag": q.Tag, "owner": q.Owner, "page_token": q.Token} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if q.Size > 0 {
		query.Set("page_size", strconv.Itoa(q.Size))
	}
	u := *o.api
	u.Path = strings.TrimSuffix(u.Path, "/") + "/workflows"
	u.RawQuery = query.Encode()
	var out listAnswer
	err := o.sendWithRetry(ctx, "list workflows", func(ctx context.Context) (*http.Request, error) {
		return newRequest(ctx, http.MethodGet, u.String(), nil, nil)
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
		Version     looseVersion    `json:"version"`
		Definition  json.RawMessage `json:"definition"`
		Hash        string          `json:"hash"`
		PatchID     string          `json:"patch_id"`
		Description string          `json:"description"`
	} `json:"workflows"`
	Next string `json:"next_page_token"`
}

// page returns the definitions that match the query. An orchestrator may ignore the query's tag and owner.
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
