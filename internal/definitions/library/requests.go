package library

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// PutRequest replaces or creates a definition.
type PutRequest struct {
	agent.WorkflowKey // Owner empty: [agent.DefaultWorkflowOwner]

	Definition  json.RawMessage // an [agent.WorkflowDefinition]
	Description string
	BaseVersion int64 // the expected newest version; another one is a conflict; 0: any
	By          string
	Idempotency string // requests with the same key make one change; may be empty
	DryRun      bool   // return the result without storing it
	OnlyNew     bool   // fail with a conflict if the definition exists
}

// DeleteRequest deletes a definition. Its versions remain, and its runs continue.
type DeleteRequest struct {
	agent.WorkflowKey // Owner empty: the only owner of the tag

	Description string
	BaseVersion int64
	By          string
	Idempotency string
}

// requestIdentity is the part of a request that must be equal in requests with the same idempotency key.
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

// hashRequest returns the hash of the canonical JSON of the change's requestIdentity.
func (c *change) hashRequest() (string, error) {
	canonical, err := canonicalJSON("hash request", requestIdentity{
		Kind: c.operation, Owner: c.key.Owner, Tag: c.key.Tag, Content: c.content, Revert: c.revertedPatch, Description: c.description, Base: c.base,
		New: c.onlyNew,
	})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), nil
}
