package agent

import (
	"encoding/json"
	"time"
)

// WorkflowDefinition is a process as a graph, which people and agents change by JSON Patches. The workflow DefinedWorkflow runs it.
type WorkflowDefinition struct {
	Description string             `json:"description,omitempty"`
	Nodes       []WorkflowNode     `json:"nodes"`
	Edges       []WorkflowEdge     `json:"edges"`
	Schedules   []WorkflowSchedule `json:"schedules,omitempty"`
}

// The types of nodes.
const (
	WorkflowTask      = "task"      // runs config.action: email, webhook or pipeline
	WorkflowAgent     = "agent"     // sends config.message to config.agent
	WorkflowCondition = "condition" // evaluates expr, in CEL, on the input
	WorkflowTimer     = "timer"     // waits for config.duration: "90s", "24h"
)

// WorkflowNode is a step of a [WorkflowDefinition].
type WorkflowNode struct {
	ID     string          `json:"id"` // 1 to 128 of A-Z a-z 0-9 . _ -
	Type   string          `json:"type"`
	Name   string          `json:"name,omitempty"`
	Expr   string          `json:"expr,omitempty"`   // condition
	Config json.RawMessage `json:"config,omitempty"` // an object that depends on Type
}

// WorkflowEdge leads from one node to another.
type WorkflowEdge struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Condition string `json:"condition,omitempty"` // of an edge from a condition: "true" or "false"; empty: always
}

// WorkflowSchedule starts runs periodically. Exactly one of Cron and IntervalSec is set.
type WorkflowSchedule struct {
	ID          string          `json:"id"`
	Cron        string          `json:"cron,omitempty"`
	IntervalSec int64           `json:"interval_sec,omitempty"`
	TimeZone    string          `json:"time_zone,omitempty"` // IANA; empty: UTC
	Input       json.RawMessage `json:"input,omitempty"`     // of the runs
	Paused      bool            `json:"paused,omitempty"`
}

// WorkflowKey identifies a definition.
type WorkflowKey struct {
	Tenant string `json:"tenant"`
	Owner  string `json:"workflow_owner"` // [DefaultWorkflowOwner] if none is named
	Tag    string `json:"workflow_tag"`
}

// DefaultWorkflowOwner is the owner of definitions that are created without an owner.
const DefaultWorkflowOwner = "default"

// StoredWorkflow is a version of a definition. Versions never change.
type StoredWorkflow struct {
	WorkflowKey

	Version    int64           `json:"version"`    // 1 for the first
	Definition json.RawMessage `json:"definition"` // a [WorkflowDefinition] as canonical JSON
	Hash       string          `json:"hash"`       // sha256:<hex> of Definition
	PatchID    string          `json:"patch_id"`   // of the change that made this version
	Deleted    bool            `json:"deleted,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
	UpdatedBy  string          `json:"updated_by"`
}

// WorkflowPatchRequest changes a definition by a JSON Patch (RFC 6902).
type WorkflowPatchRequest struct {
	WorkflowKey                 // empty Owner: the only owner of the tag
	Operations  json.RawMessage `json:"operations"` // a JSON Patch
	Description string          `json:"description,omitempty"`
	BaseVersion int64           `json:"base_version,omitempty"` // conflict if this is not the newest version; 0: not checked
	By          string          `json:"by,omitempty"`
	Idempotency string          `json:"-"`                   // requests with the same key make one change and have the same result; may be empty
	DryRun      bool            `json:"dry_run,omitempty"`   // return the result without storing it
	Revert      string          `json:"revert_of,omitempty"` // the patch to revert
}

// WorkflowPatchResult is the outcome of a patch.
type WorkflowPatchResult struct {
	WorkflowKey

	PatchID     string `json:"patch_id"`
	Version     int64  `json:"version"`
	BaseVersion int64  `json:"base_version"` // the version that the patch was applied to; 0 if there was none
	Hash        string `json:"hash,omitempty"`
	Unchanged   bool   `json:"unchanged,omitempty"` // the patch changed nothing: there is no new version
}

// WorkflowPatch is an entry of a definition's history.
type WorkflowPatch struct {
	WorkflowPatchResult

	Operations  json.RawMessage `json:"operations"` // null if the definition was replaced
	Description string          `json:"description,omitempty"`
	Revert      string          `json:"revert_of,omitempty"`
	At          time.Time       `json:"at"`
	By          string          `json:"by"`
}

// WorkflowCommit stores the next version of a definition.
type WorkflowCommit struct {
	Stored      StoredWorkflow // Version is Base + 1
	Base        int64          // the version that was changed; [CodeConflict] if it is no longer the newest
	Operations  json.RawMessage
	Description string
	Revert      string
	Idempotency string
	RequestHash string // of the request; [CodeConflict] if another request has the same Idempotency key
}

// WorkflowQuery selects the newest versions of definitions of a tenant.
type WorkflowQuery struct {
	Tenant string
	Owner  string // empty: all
	Tag    string // empty: all
	Page
}

// WorkflowPage is a page of definitions.
type WorkflowPage struct {
	Workflows []StoredWorkflow `json:"workflows"`
	Next      string           `json:"next_page_token"`
}

// WorkflowPatchPage is a page of a definition's history, newest first.
type WorkflowPatchPage struct {
	Patches []WorkflowPatch `json:"patches"`
	Next    string          `json:"next_page_token"`
}
