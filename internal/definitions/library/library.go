package library

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Config is the configuration of a [Library].
type Config struct {
	Store     Store
	Schedules Schedules        // updated after every change; may be nil
	Now       func() time.Time // nil: time.Now
	Logger    *zap.Logger      // nil: no logs
}

// Library manages the definitions of all tenants. It is safe for concurrent use, also by several processes.
type Library struct {
	store     Store
	schedules Schedules
	now       func() time.Time
	logger    *zap.Logger
}

// New returns a Library. It checks the configuration.
func New(cfg Config) (*Library, error) {
	if cfg.Store == nil {
		return nil, agent.Invalid("store", "is required")
	}
	l := &Library{store: cfg.Store, schedules: cfg.Schedules, now: cfg.Now, logger: cfg.Logger}
	if l.now == nil {
		l.now = time.Now
	}
	if l.logger == nil {
		l.logger = zap.NewNop()
	}
	return l, nil
}

// Workflow returns a version of a definition, 0 for the newest. An empty Owner means the only owner of the tag. Its error is one of [Store].Workflow,
// or [agent.CodeInvalid].
func (l *Library) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	key, err := validateKey(key)
	if err != nil {
		return agent.StoredWorkflow{}, err
	}
	if version < 0 {
		return agent.StoredWorkflow{}, agent.Invalid("version", "is negative")
	}
	w, err := l.store.Workflow(ctx, key, version)
	if err != nil {
		return agent.StoredWorkflow{}, l.notFoundError(ctx, key, err)
	}
	return w, nil
}

// ListWorkflows returns the newest versions, sorted by tag and owner.
func (l *Library) ListWorkflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	q.Tenant = cmp.Or(q.Tenant, agent.DefaultTenant)
	page, err := l.store.Workflows(ctx, q)
	if err != nil {
		return agent.WorkflowPage{}, fmt.Errorf("list workflows: %w", err)
	}
	return page, nil
}

// Patches returns the changes of a definition, newest first. A deleted definition is found only by tag and owner.
func (l *Library) Patches(ctx context.Context, key agent.WorkflowKey, page agent.Page) (agent.WorkflowPatchPage, error) {
	key, err := validateKey(key)
	if err != nil {
		return agent.WorkflowPatchPage{}, err
	}
	out, err := l.store.WorkflowPatches(ctx, key, page)
	if err != nil {
		return agent.WorkflowPatchPage{}, l.notFoundError(ctx, key, err)
	}
	return out, nil
}

// Patch returns a change by its ID. Its error is [agent.CodeNotFound] with Field "patch_id" if there is none.
func (l *Library) Patch(ctx context.Context, tenant, id string) (agent.WorkflowPatch, error) {
	p, err := l.store.WorkflowPatch(ctx, cmp.Or(tenant, agent.DefaultTenant), id)
	if err != nil {
		return agent.WorkflowPatch{}, fmt.Errorf("read patch %.100q: %w", id, err)
	}
	return p, nil
}

// validateKey checks the names of a definition and sets the default tenant. The owner may be empty.
func validateKey(key agent.WorkflowKey) (agent.WorkflowKey, error) {
	key.Tenant = cmp.Or(key.Tenant, agent.DefaultTenant)
	const want = "want 1 to 128 of A-Z a-z 0-9 . _ -, got %.100q"
	switch {
	case key.Tag == "":
		return key, agent.Invalid("workflow_tag", "is required")
	case !agent.ValidName(key.Tag):
		return key, agent.Invalid("workflow_tag", want, key.Tag)
	case key.Owner != "" && !agent.ValidName(key.Owner):
		return key, agent.Invalid("workflow_owner", want, key.Owner)
	}
	return key, nil
}

// maxListedWorkflows is the maximum number of definitions that an error lists.
const maxListedWorkflows = 20

// notFoundError adds the name of the definition to err. If the definition was not found, the error lists the existing definitions.
func (l *Library) notFoundError(ctx context.Context, key agent.WorkflowKey, err error) error {
	ownerText := ""
	if key.Owner != "" {
		ownerText = " of owner " + key.Owner
	}
	if agent.CodeOf(err) != agent.CodeNotFound || errorField(err) == "version" {
		return fmt.Errorf("workflow %s%s: %w", key.Tag, ownerText, err)
	}
	available := "there are none"
	page, listErr := l.store.Workflows(ctx, agent.WorkflowQuery{Tenant: key.Tenant, Page: agent.Page{Size: maxListedWorkflows}})
	switch {
	case listErr != nil:
		available = "which there are cannot be said"
	case len(page.Workflows) > 0:
		names := make([]string, len(page.Workflows))
		for i := range page.Workflows {
			names[i] = page.Workflows[i].Tag + " of " + page.Workflows[i].Owner
		}
		available = "there are: " + strings.Join(names, ", ")
		if page.Next != "" {
			available += ", …"
		}
	}
	return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %s%s; %s", key.Tag, ownerText, available)
}
