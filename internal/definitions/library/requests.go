package library

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// PutRequest replaces or creates a definition.
type PutRequest struct {
	agent.WorkflowKey // Owner empty: [agent.DefaultWorkflowOwner]

	Definition  json.RawMessage // an [agent.WorkflowDefinition]
	Description string
	BaseVersion int64 // the newest version that the caller knows: another one is a conflict; 0: any
	By          string
	Idempotency string // requests with the same key change once; empty: no key
	DryRun      bool   // return the result without storing it
	OnlyNew     bool   // conflict if the definition exists and is not deleted
}

// DeleteRequest deletes a definition. Its versions stay, and its runs continue.
type DeleteRequest struct {
	agent.WorkflowKey // Owner empty: the only owner of the tag

	Description string
	BaseVersion int64
	By          string
	Idempotency string
}

// requestIdentity has the members in which requests under one idempotency key must be equal.
type requestIdentity struct {
	Kind        string          `json:"kind"`
	Owner       string          `json:"owner"`
	Tag         string          `json:"tag"`
	Content     json.RawMessage `json:"what,omitempty"`
	Revert      string          `json:"revert,omitempty"`
	Description string          `json:"description"`
	Base        int64           `json:"base"`
	New         bool            `json:"new,omitempty"`
}

// requestHash returns the hash of the canonical JSON of a request.
func requestHash(a requestIdentity) (string, error) {
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
