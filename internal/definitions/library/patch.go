package library

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/graph"
)

// empty is the definition that has nothing, canonical: what the first patch is applied to, and what a deleted version holds.
const empty = `{"edges":[],"nodes":[]}`

// Put makes a definition be what the request says, the first version included. Errors: [agent.CodeInvalid] with what is wrong as
// [agent.Faults]; [agent.CodeConflict] when BaseVersion is not the newest, and with Field "workflow_tag" when OnlyNew and there is one.
func (l *Library) Put(ctx context.Context, r PutRequest) (agent.WorkflowPatchResult, error) {
	key, err := named(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	key.Owner = cmp.Or(key.Owner, agent.DefaultWorkflowOwner)
	definition, err := graph.Normalize(r.Definition)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	hash, err := requestHash(asked{
		Kind: "put", Owner: key.Owner, Tag: key.Tag, What: definition, Description: r.Description, Base: r.BaseVersion, New: r.OnlyNew,
	})
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		key: key, description: r.Description, base: r.BaseVersion, by: r.By, idempotency: r.Idempotency, hash: hash, dryRun: r.DryRun,
		onlyNew: r.OnlyNew,
		next:    func(context.Context, *state) (draft, error) { return draft{definition: definition}, nil },
	})
}

// PatchWorkflow applies a JSON Patch to a definition, or takes one back when r.Revert names it. A definition that does not exist is made by
// a patch whose first operation adds the whole: {"op":"add","path":"","value":{…}}.
//
// Errors name the operation or the place: [agent.CodeInvalid]; [agent.CodeOverflow] beyond a bound; [agent.CodeConflict] with Field
// "base_version" when it names one, "workflow_owner" when several owners have the tag, "idempotency_key" when it was given with another request, or that of
// what somebody else has changed; [agent.CodeRateLimited] when others were quicker again and again; [agent.CodeNotFound] with Field
// "workflow_tag" or "patch_id".
func (l *Library) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if r.Revert != "" {
		return l.Revert(ctx, r)
	}
	key, err := named(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	operations, err := graph.ParseOperations(r.Operations)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return agent.WorkflowPatchResult{}, agent.Errorf(agent.CodeInternal, "patch workflow", "%w", err)
	}
	hash, err := requestHash(asked{Kind: "patch", Owner: key.Owner, Tag: key.Tag, What: raw, Description: r.Description, Base: r.BaseVersion})
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	makes := operations[0].Path == "" && operations[0].Op != "test"
	return l.apply(ctx, &change{
		key: key, description: r.Description, base: r.BaseVersion, by: r.By, idempotency: r.Idempotency, hash: hash, dryRun: r.DryRun,
		next: func(ctx context.Context, now *state) (draft, error) {
			document := json.RawMessage(empty)
			switch {
			case now.stored != nil:
				document = now.stored.Definition
			case !makes:
				return draft{}, l.explain(ctx, key, agent.Errorf(agent.CodeNotFound, "", "none"))
			}
			patched, err := graph.Apply(document, operations)
			return draft{definition: patched, operations: raw}, err
		},
	})
}

// Delete takes a definition out of use: what is stored next says deleted. [agent.CodeNotFound] when there is none.
func (l *Library) Delete(ctx context.Context, r DeleteRequest) (agent.WorkflowPatchResult, error) {
	key, err := named(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	hash, err := requestHash(asked{Kind: "delete", Owner: key.Owner, Tag: key.Tag, Description: r.Description, Base: r.BaseVersion})
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		key: key, description: r.Description, base: r.BaseVersion, by: r.By, idempotency: r.Idempotency, hash: hash,
		next: func(ctx context.Context, now *state) (draft, error) {
			if now.stored == nil {
				return draft{}, l.explain(ctx, key, agent.Errorf(agent.CodeNotFound, "", "none"))
			}
			return draft{definition: json.RawMessage(empty), deleted: true}, nil
		},
	})
}

// Revert takes the effect of the patch r.Revert back, in the newest version. What somebody else has changed since, and what could not be
// run without the patch, is [agent.CodeConflict]. The names in r may be empty, Operations is.
func (l *Library) Revert(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if len(r.Operations) > 0 {
		return agent.WorkflowPatchResult{}, agent.Invalid("operations", "are made of the patch that is taken back: give revert_of alone")
	}
	tenant := cmp.Or(r.Tenant, agent.DefaultTenant)
	patch, err := l.Patch(ctx, tenant, r.Revert)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	key := patch.WorkflowKey
	if r.Tag != "" && r.Tag != key.Tag || r.Owner != "" && r.Owner != key.Owner {
		return agent.WorkflowPatchResult{}, agent.FieldErrorf(agent.CodeNotFound, "patch_id", "is a patch of workflow %s of owner %s", key.Tag, key.Owner)
	}
	hash, err := requestHash(asked{Kind: "revert", Owner: key.Owner, Tag: key.Tag, Revert: r.Revert, Description: r.Description, Base: r.BaseVersion})
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	before, after, err := l.around(ctx, &patch)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		key: key, description: cmp.Or(r.Description, "Take back "+patch.PatchID), base: r.BaseVersion, by: r.By, idempotency: r.Idempotency,
		hash: hash, dryRun: r.DryRun, revert: patch.PatchID,
		next: func(_ context.Context, now *state) (draft, error) { return takeBack(now, before, after) },
	})
}

// around returns the versions before and after a patch.
func (l *Library) around(ctx context.Context, p *agent.WorkflowPatch) (before, after *agent.StoredWorkflow, err error) {
	if p.BaseVersion < 1 {
		return nil, nil, agent.FieldErrorf(agent.CodeConflict, "patch_id", "made the first version: delete the workflow to take that back")
	}
	versions := make([]agent.StoredWorkflow, 2)
	for i, v := range []int64{p.BaseVersion, p.Version} {
		if versions[i], err = l.store.Workflow(ctx, p.WorkflowKey, v); err != nil {
			return nil, nil, fmt.Errorf("read version %d of workflow %s: %w", v, p.Tag, err)
		}
	}
	if versions[0].Deleted {
		return nil, nil, agent.FieldErrorf(agent.CodeConflict, "patch_id", "made the workflow again: delete it to take that back")
	}
	return &versions[0], &versions[1], nil
}

func takeBack(now *state, before, after *agent.StoredWorkflow) (draft, error) {
	switch {
	case after.Deleted && now.version == after.Version:
		return draft{definition: before.Definition}, nil
	case after.Deleted:
		return draft{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "deleted the workflow, which was made again since")
	case now.stored == nil:
		return draft{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "is of a workflow that was deleted since")
	}
	operations, err := graph.Undo(before.Definition, after.Definition, now.stored.Definition)
	if err != nil {
		return draft{}, fmt.Errorf("take back version %d in version %d: %w", after.Version, now.version, err)
	}
	taken, err := graph.Apply(now.stored.Definition, operations)
	if err != nil {
		return draft{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "what came since needs it: %w", err)
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return draft{}, agent.Errorf(agent.CodeInternal, "take back patch", "%w", err)
	}
	return draft{definition: taken, operations: raw}, nil
}

// asked is what makes two requests the same.
type asked struct {
	Kind        string          `json:"kind"`
	Owner       string          `json:"owner"`
	Tag         string          `json:"tag"`
	What        json.RawMessage `json:"what,omitempty"`
	Revert      string          `json:"revert,omitempty"`
	Description string          `json:"description"`
	Base        int64           `json:"base"`
	New         bool            `json:"new,omitempty"`
}

func requestHash(a asked) (string, error) {
	raw, err := json.Marshal(a)
	if err != nil {
		return "", agent.Errorf(agent.CodeInternal, "hash request", "%w", err)
	}
	canonical := jsontext.Value(raw)
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return "", agent.Errorf(agent.CodeInternal, "hash request", "%w", err)
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
