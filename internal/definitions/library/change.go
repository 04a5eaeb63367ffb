package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/graph"
)

// Bounds of a change.
const (
	maxDescription = 4_000 // bytes
	maxKey         = 256   // bytes of an idempotency key
	maxBy          = 256
	attempts       = 30 // a change without a base, when others are quicker
	firstPause     = 5 * time.Millisecond
	maxPause       = 100 * time.Millisecond
	maxPatience    = 5 * time.Second // all attempts
	comeBack       = time.Second     // after all of them
	syncTime       = 10 * time.Second
)

// change is a request to make the next version of a definition.
type change struct {
	key         agent.WorkflowKey
	description string
	base        int64
	by          string
	idempotency string
	hash        string // of what is asked
	dryRun      bool
	onlyNew     bool // refuse where there is a definition
	revert      string
	// next makes the next version of what there is. It may be called again.
	next func(ctx context.Context, now *state) (draft, error)
}

// state is what there is of a definition.
type state struct {
	key     agent.WorkflowKey
	version int64                 // the newest; 0: there never was one
	stored  *agent.StoredWorkflow // nil: there is none, or it was deleted
}

// draft is what a next version shall be.
type draft struct {
	definition json.RawMessage // canonical
	operations json.RawMessage // nil: a whole definition
	deleted    bool
}

func (c *change) check() error {
	switch {
	case len(c.description) > maxDescription:
		return agent.Invalid("description", "is %d bytes, at most %d", len(c.description), maxDescription)
	case c.base < 0:
		return agent.Invalid("base_version", "is negative")
	case len(c.idempotency) > maxKey:
		return agent.Invalid("idempotency_key", "is %d bytes, at most %d", len(c.idempotency), maxKey)
	case len(c.by) > maxBy:
		return agent.Invalid("by", "is %d bytes, at most %d", len(c.by), maxBy)
	default:
		return nil
	}
}

// apply makes the change, once for each idempotency key.
func (l *Library) apply(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	if err := c.check(); err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	if before, known, err := l.before(ctx, c); err != nil || known {
		return before, err
	}
	result, err := l.insist(ctx, c)
	if interrupted := agent.Interrupted(ctx, "change workflow "+c.key.Tag); err != nil && interrupted != nil {
		return result, interrupted
	}
	if err == nil && !result.Unchanged {
		return result, nil
	}
	// The same request may have been under way at the same time, and have come first: what was wrong, or no change any more, is what it did.
	if before, known, again := l.before(ctx, c); again != nil || known {
		return before, again
	}
	return result, err
}

// before returns what the same request was answered earlier; known is false when it is new, or has no key. Another request under its key
// is an error.
func (l *Library) before(ctx context.Context, c *change) (r agent.WorkflowPatchResult, known bool, err error) {
	if c.idempotency == "" || c.dryRun {
		return r, false, nil
	}
	r, hash, known, err := l.store.PatchedBefore(ctx, c.key.Tenant, c.idempotency)
	switch {
	case err != nil:
		return agent.WorkflowPatchResult{}, false, fmt.Errorf("look for an earlier request: %w", err)
	case known && hash != c.hash:
		return agent.WorkflowPatchResult{}, false, agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was given with another request before")
	default:
		return r, known, nil
	}
}

// insist makes the change, again when somebody else was quicker and it names no base.
func (l *Library) insist(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, maxPause
	result, err := backoff.Retry(ctx, func() (agent.WorkflowPatchResult, error) {
		r, err := l.attempt(ctx, c)
		if err != nil && (c.base != 0 || !overtaken(err)) {
			return r, backoff.Permanent(err)
		}
		return r, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxTries(attempts), backoff.WithMaxElapsedTime(maxPatience))
	if c.base == 0 && overtaken(err) { // whoever asked has named no base
		return result, &agent.Error{
			Code: agent.CodeRateLimited, Op: "change workflow " + c.key.Tag, RetryAfter: comeBack,
			Err: errors.New("others changed it each time: nothing was changed, try again"),
		}
	}
	return result, err
}

// overtaken reports whether somebody else made the next version first.
func overtaken(err error) bool {
	return agent.CodeOf(err) == agent.CodeConflict && fieldOf(err) == fieldBase
}

const fieldBase = "base_version"

func fieldOf(err error) string {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.Field
	}
	return ""
}

func (l *Library) attempt(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	now, err := l.state(ctx, c.key)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	if c.base != 0 && c.base != now.version {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, fieldBase, "is %d, and the newest version is %d", c.base, now.version)
	}
	if c.onlyNew && now.stored != nil {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, "workflow_tag", "there is version %d of %s already, and only a new one is wanted",
			now.version, now.key.Tag)
	}
	d, err := c.next(ctx, now)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	hash := graph.Hash(d.definition)
	if now.stored != nil && !d.deleted && now.stored.Hash == hash {
		r := agent.WorkflowPatchResult{
			WorkflowKey: now.key, PatchID: now.stored.PatchID, Version: now.version, BaseVersion: now.version, Hash: hash, Unchanged: true,
		}
		if c.idempotency == "" || c.dryRun {
			return r, nil
		}
		return r, l.store.RememberUnchanged(ctx, r, c.idempotency, c.hash)
	}
	r := agent.WorkflowPatchResult{WorkflowKey: now.key, Version: now.version + 1, BaseVersion: now.version, Hash: hash}
	if c.dryRun {
		return r, nil
	}
	return l.commit(ctx, c, d, r)
}

func (l *Library) commit(ctx context.Context, c *change, d draft, r agent.WorkflowPatchResult) (agent.WorkflowPatchResult, error) {
	id, err := patchID(c)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	next := agent.StoredWorkflow{
		WorkflowKey: r.WorkflowKey, Version: r.Version, Definition: d.definition, Hash: r.Hash, PatchID: id,
		Deleted: d.deleted, UpdatedAt: l.now().UTC(), UpdatedBy: c.by,
	}
	if err := l.checkSchedules(ctx, &next); err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	stored, err := l.store.CommitWorkflow(ctx, agent.WorkflowCommit{
		Stored: next, Base: r.BaseVersion, Operations: d.operations, Description: c.description, Revert: c.revert,
		Idempotency: c.idempotency, RequestHash: c.hash,
	})
	if err != nil {
		l.sync(ctx, next) // the check may have made schedules for it
		return agent.WorkflowPatchResult{}, fmt.Errorf("store version %d of workflow %s of owner %s: %w", r.Version, r.Tag, r.Owner, err)
	}
	l.sync(ctx, stored)
	return agent.WorkflowPatchResult{
		WorkflowKey: stored.WorkflowKey, PatchID: stored.PatchID, Version: stored.Version, BaseVersion: stored.Version - 1, Hash: stored.Hash,
	}, nil
}

// checkSchedules refuses a version whose schedules Temporal refuses. One that it cannot be asked about is stored, and is told of later.
func (l *Library) checkSchedules(ctx context.Context, w *agent.StoredWorkflow) error {
	if l.schedules == nil {
		return nil
	}
	err := l.schedules.Check(ctx, *w)
	if err == nil || agent.CodeOf(err) == agent.CodeInvalid {
		return err
	}
	l.logger.Warn("the schedules of a workflow are stored unchecked", zap.String("tenant", w.Tenant), zap.String("workflow_owner", w.Owner),
		zap.String("workflow_tag", w.Tag), zap.Error(err))
	return nil
}

// sync tells of a change, best effort: what it does not reach now is put right from time to time.
func (l *Library) sync(ctx context.Context, w agent.StoredWorkflow) {
	if l.schedules == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncTime)
	defer cancel()
	if err := l.schedules.Sync(ctx, w); err != nil {
		l.logger.Warn("the schedules of a workflow do not follow its new version yet",
			zap.String("tenant", w.Tenant), zap.String("workflow_owner", w.Owner), zap.String("workflow_tag", w.Tag), zap.Int64("version", w.Version), zap.Error(err))
	}
}

// patchID is the same for the same idempotency key of a tenant, else a new one. Those of a later time sort behind.
func patchID(c *change) (string, error) {
	if c.idempotency != "" {
		return "patch_" + uuid.NewSHA1(uuid.NameSpaceURL, []byte("turnstone:patch:"+c.key.Tenant+"\x00"+c.idempotency)).String(), nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, "make patch id", "%w", err)
	}
	return "patch_" + id.String(), nil
}

// state reads what there is. Without an owner it is that of the tag's one owner; when there is none, of [agent.DefaultWorkflowOwner].
func (l *Library) state(ctx context.Context, key agent.WorkflowKey) (*state, error) {
	now := &state{key: key}
	stored, err := l.store.Workflow(ctx, key, 0)
	switch {
	case err == nil:
		now.key, now.version, now.stored = stored.WorkflowKey, stored.Version, &stored
		return now, nil
	case agent.CodeOf(err) != agent.CodeNotFound:
		return nil, fmt.Errorf("read workflow %s: %w", key.Tag, err)
	}
	if key.Owner == "" {
		now.key.Owner = agent.DefaultWorkflowOwner
	}
	if now.version, _, err = l.store.NewestVersion(ctx, now.key); err != nil {
		return nil, fmt.Errorf("read workflow %s: %w", key.Tag, err)
	}
	return now, nil
}
