package library

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a change.
const (
	maxDescription    = 4_000 // bytes
	maxIdempotencyKey = 256   // bytes of an idempotency key
	maxAuthor         = 256
	maxAttempts       = 30 // of a change without a base version
	firstPause        = 5 * time.Millisecond
	maxPause          = 100 * time.Millisecond
	maxRetryTime      = 5 * time.Second // for all attempts
	retryAfter        = time.Second     // the delay that the error suggests after the last attempt
	syncTimeout       = 10 * time.Second
)

// change is a request to make the next version of a definition.
type change struct {
	operation      string // put, patch, delete or revert
	key            agent.WorkflowKey
	content        json.RawMessage // the definition or the patch
	description    string
	base           int64
	author         string
	idempotencyKey string
	dryRun         bool
	onlyNew        bool // refuse if the definition exists
	revertedPatch  string
	// build returns the next version. It may be called several times.
	build func(current *currentVersion) (nextVersion, error)

	requestHash string // identifies equal requests; set by [Library.apply]
}

// currentVersion is the newest version of a definition.
type currentVersion struct {
	key     agent.WorkflowKey
	version int64                 // 0 if there never was one
	stored  *agent.StoredWorkflow // nil if there never was one or the newest version is deleted
}

// nextVersion is the content of the next version.
type nextVersion struct {
	definition json.RawMessage // canonical
	operations json.RawMessage // canonical JSON Patch; nil if the definition was replaced
	deleted    bool
}

// validate checks the bounds of a change.
func (c *change) validate() error {
	switch {
	case len(c.description) > maxDescription:
		return agent.Invalid("description", "is %d bytes, at most %d", len(c.description), maxDescription)
	case c.base < 0:
		return agent.Invalid("base_version", "is negative")
	case len(c.idempotencyKey) > maxIdempotencyKey:
		return agent.Invalid("idempotency_key", "is %d bytes, at most %d", len(c.idempotencyKey), maxIdempotencyKey)
	case len(c.author) > maxAuthor:
		return agent.Invalid("by", "is %d bytes, at most %d", len(c.author), maxAuthor)
	default:
		return nil
	}
}

// apply makes the change. It makes the change only once under an idempotency key.
func (l *Library) apply(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	err := c.validate()
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	if c.requestHash, err = c.hashRequest(); err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	if earlier, found, err := l.findEarlierResult(ctx, c); err != nil || found {
		return earlier, err
	}
	result, err := l.applyWithRetry(ctx, c)
	if interrupted := agent.Interrupted(ctx, "change workflow "+c.key.Tag); err != nil && interrupted != nil {
		return result, interrupted
	}
	if err == nil && !result.Unchanged {
		return result, nil
	}
	// The same request may have succeeded concurrently. Then its result counts, even if this call failed.
	if earlier, found, lookupErr := l.findEarlierResult(ctx, c); lookupErr != nil || found {
		return earlier, lookupErr
	}
	return result, err
}

// findEarlierResult returns the result of an earlier request with the same idempotency key; found is false if there was none. It fails if the
// earlier request was a different one.
func (l *Library) findEarlierResult(ctx context.Context, c *change) (r agent.WorkflowPatchResult, found bool, err error) {
	if c.idempotencyKey == "" || c.dryRun {
		return r, false, nil
	}
	r, hash, found, err := l.store.PatchedBefore(ctx, c.key.Tenant, c.idempotencyKey)
	switch {
	case err != nil:
		return agent.WorkflowPatchResult{}, false, fmt.Errorf("look for an earlier request: %w", err)
	case found && hash != c.requestHash:
		return agent.WorkflowPatchResult{}, false, agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was given with another request before")
	default:
		return r, found, nil
	}
}

// applyWithRetry makes the change. It repeats a change without a base version if another change came first.
func (l *Library) applyWithRetry(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	backOff := backoff.NewExponentialBackOff()
	backOff.InitialInterval, backOff.MaxInterval = firstPause, maxPause
	result, err := backoff.Retry(ctx, func() (agent.WorkflowPatchResult, error) {
		r, err := l.applyOnce(ctx, c)
		if err != nil && (c.base != 0 || !isOvertaken(err)) {
			return r, backoff.Permanent(err)
		}
		return r, err
	}, backoff.WithBackOff(backOff), backoff.WithMaxTries(maxAttempts), backoff.WithMaxElapsedTime(maxRetryTime))
	if c.base == 0 && isOvertaken(err) { // the error would name a base version, but the caller has not set one
		return result, &agent.Error{
			Code: agent.CodeRateLimited, Op: "change workflow " + c.key.Tag, RetryAfter: retryAfter,
			Err: errors.New("others changed it each time: nothing was changed, try again"),
		}
	}
	return result, err
}

// isOvertaken reports whether an error means that another change made the next version first.
func isOvertaken(err error) bool {
	return agent.CodeOf(err) == agent.CodeConflict && errorField(err) == fieldBaseVersion
}

const fieldBaseVersion = "base_version"

// errorField returns the Field of an [agent.Error], empty for other errors.
func errorField(err error) string {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e.Field
	}
	return ""
}

// applyOnce makes the change to the newest version.
func (l *Library) applyOnce(ctx context.Context, c *change) (agent.WorkflowPatchResult, error) {
	current, err := l.loadCurrent(ctx, c.key)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	if c.base != 0 && c.base != current.version {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, fieldBaseVersion, "is %d, and the newest version is %d", c.base, current.version)
	}
	if c.onlyNew && current.stored != nil {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeConflict, "workflow_tag", "there is version %d of %s already, and only a new one is wanted",
			current.version, current.key.Tag)
	}
	next, err := c.build(current)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	hash := Hash(next.definition)
	if current.stored != nil && !next.deleted && current.stored.Hash == hash {
		r := agent.WorkflowPatchResult{
			WorkflowKey: current.key, PatchID: current.stored.PatchID, Version: current.version, BaseVersion: current.version, Hash: hash, Unchanged: true,
		}
		if c.idempotencyKey == "" || c.dryRun {
			return r, nil
		}
		return r, l.store.RememberUnchanged(ctx, r, c.idempotencyKey, c.requestHash)
	}
	r := agent.WorkflowPatchResult{WorkflowKey: current.key, Version: current.version + 1, BaseVersion: current.version, Hash: hash}
	if c.dryRun {
		return r, nil
	}
	return l.commit(ctx, c, next, r)
}

// commit stores the next version, whose key, version and hash are in r, and returns the result with the ID of the patch.
func (l *Library) commit(ctx context.Context, c *change, next nextVersion, r agent.WorkflowPatchResult) (agent.WorkflowPatchResult, error) {
	id, err := patchID(c)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	w := agent.StoredWorkflow{
		WorkflowKey: r.WorkflowKey, Version: r.Version, Definition: next.definition, Hash: r.Hash, PatchID: id,
		Deleted: next.deleted, UpdatedAt: l.now().UTC(), UpdatedBy: c.author,
	}
	if err := l.checkSchedules(ctx, &w); err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	description := c.description
	if c.revertedPatch != "" {
		description = cmp.Or(description, "Take back "+c.revertedPatch)
	}
	stored, err := l.store.CommitWorkflow(ctx, agent.WorkflowCommit{
		Stored: w, Base: r.BaseVersion, Operations: next.operations, Description: description, Revert: c.revertedPatch,
		Idempotency: c.idempotencyKey, RequestHash: c.requestHash,
	})
	if err != nil {
		l.syncSchedules(ctx, w) // checkSchedules may have created schedules of the version that was not stored
		return agent.WorkflowPatchResult{}, fmt.Errorf("store version %d of workflow %s of owner %s: %w", r.Version, r.Tag, r.Owner, err)
	}
	l.syncSchedules(ctx, stored)
	return agent.WorkflowPatchResult{
		WorkflowKey: stored.WorkflowKey, PatchID: stored.PatchID, Version: stored.Version, BaseVersion: stored.Version - 1, Hash: stored.Hash,
	}, nil
}

// checkSchedules returns an error if the schedules of a version are invalid. It only logs if they cannot be checked.
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

// syncSchedules updates the schedules after a change. It only logs errors, because the schedules are reconciled periodically.
func (l *Library) syncSchedules(ctx context.Context, w agent.StoredWorkflow) {
	if l.schedules == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), syncTimeout)
	defer cancel()
	if err := l.schedules.Sync(ctx, w); err != nil {
		l.logger.Warn("the schedules of a workflow do not follow its new version yet",
			zap.String("tenant", w.Tenant), zap.String("workflow_owner", w.Owner), zap.String("workflow_tag", w.Tag), zap.Int64("version", w.Version), zap.Error(err))
	}
}

// patchID returns an ID that depends only on the tenant and the idempotency key. Without a key it returns a new ID; IDs sort by age.
func patchID(c *change) (string, error) {
	if c.idempotencyKey != "" {
		return "patch_" + uuid.NewSHA1(uuid.NameSpaceURL, []byte("turnstone:patch:"+c.key.Tenant+"\x00"+c.idempotencyKey)).String(), nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, "make patch id", "%w", err)
	}
	return "patch_" + id.String(), nil
}

// loadCurrent reads the newest version. An empty owner means the only owner of the tag, or [agent.DefaultWorkflowOwner] if the tag has none.
func (l *Library) loadCurrent(ctx context.Context, key agent.WorkflowKey) (*currentVersion, error) {
	current := &currentVersion{key: key}
	stored, err := l.store.Workflow(ctx, key, 0)
	switch {
	case err == nil:
		current.key, current.version, current.stored = stored.WorkflowKey, stored.Version, &stored
		return current, nil
	case agent.CodeOf(err) != agent.CodeNotFound:
		return nil, fmt.Errorf("read workflow %s: %w", key.Tag, err)
	}
	if key.Owner == "" {
		current.key.Owner = agent.DefaultWorkflowOwner
	}
	if current.version, _, err = l.store.NewestVersion(ctx, current.key); err != nil {
		return nil, fmt.Errorf("read workflow %s: %w", key.Tag, err)
	}
	return current, nil
}
