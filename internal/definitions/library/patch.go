package library

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// emptyDefinition is the canonical empty definition: the base of the first patch and the content of a deleted version.
const emptyDefinition = `{"edges":[],"nodes":[]}`

// Put creates or replaces a definition. Its error is [agent.CodeInvalid] wrapping [agent.Faults] for an invalid definition, [agent.CodeConflict]
// if BaseVersion is not the newest version, and [agent.CodeConflict] with Field "workflow_tag" if OnlyNew is set and the definition exists.
func (l *Library) Put(ctx context.Context, r PutRequest) (agent.WorkflowPatchResult, error) {
	key, err := validateKey(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	key.Owner = cmp.Or(key.Owner, agent.DefaultWorkflowOwner)
	definition, err := Normalize(r.Definition)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		operation: "put", key: key, content: definition, description: r.Description, base: r.BaseVersion, author: r.By, idempotencyKey: r.Idempotency,
		dryRun: r.DryRun, onlyNew: r.OnlyNew,
		build: func(*currentVersion) (nextVersion, error) {
			return nextVersion{definition: definition}, nil
		},
	})
}

// PatchWorkflow applies a JSON Patch to a definition, or reverts the patch that r.Revert names. A patch creates a new definition if its first
// operation adds the whole definition: {"op":"add","path":"","value":{…}}.
//
// Its error is one of these:
//   - [agent.CodeInvalid], or [agent.CodeOverflow] beyond a bound, with an operation or a path as Field;
//   - [agent.CodeConflict] with Field "base_version" if that is not the newest version, "workflow_owner" if several owners have the tag,
//     "idempotency_key" if the key belongs to another request, or the path of an element that was changed since;
//   - [agent.CodeRateLimited] if other changes repeatedly came first;
//   - [agent.CodeNotFound] with Field "workflow_tag" or "patch_id".
func (l *Library) PatchWorkflow(ctx context.Context, r agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	if r.Revert != "" {
		return l.Revert(ctx, r)
	}
	key, err := validateKey(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	operations, err := ParseOperations(r.Operations)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	raw, err := json.Marshal(operations)
	if err != nil {
		return agent.WorkflowPatchResult{}, agent.Errorf(agent.CodeInternal, "patch workflow", "%w", err)
	}
	createsDefinition := operations[0].Path == "" && operations[0].Op != "test"
	return l.apply(ctx, &change{
		operation: "patch", key: key, content: raw, description: r.Description, base: r.BaseVersion, author: r.By, idempotencyKey: r.Idempotency,
		dryRun: r.DryRun,
		build: func(current *currentVersion) (nextVersion, error) {
			document := json.RawMessage(emptyDefinition)
			switch {
			case current.stored != nil:
				document = current.stored.Definition
			case !createsDefinition:
				return nextVersion{}, l.notFoundError(ctx, key, agent.Errorf(agent.CodeNotFound, "", "none"))
			}
			patched, err := Apply(document, operations)
			return nextVersion{definition: patched, operations: raw}, err
		},
	})
}

// Delete stores a version that marks the definition as deleted. Its error is [agent.CodeNotFound] if there is no definition.
func (l *Library) Delete(ctx context.Context, r DeleteRequest) (agent.WorkflowPatchResult, error) {
	key, err := validateKey(r.WorkflowKey)
	if err != nil {
		return agent.WorkflowPatchResult{}, err
	}
	return l.apply(ctx, &change{
		operation: "delete", key: key, description: r.Description, base: r.BaseVersion, author: r.By, idempotencyKey: r.Idempotency,
		build: func(current *currentVersion) (nextVersion, error) {
			if current.stored == nil {
				return nextVersion{}, l.notFoundError(ctx, key, agent.Errorf(agent.CodeNotFound, "", "none"))
			}
			return nextVersion{definition: json.RawMessage(emptyDefinition), deleted: true}, nil
		},
	})
}
