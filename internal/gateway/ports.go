package gateway

import (
	"context"
	"encoding/json"
	"io"

	"github.com/turnstone-run/turnstone/agent"
)

// Approvals is the part of a [Runtime] that knows what waits, or waited, for a person. Tenant, SessionID and Agent of what it returns are
// filled in. Answering is [agent.Inbox]'s Decide: [agent.CodeConflict] for what is decided, expired or over; [agent.CodeInvalid] with the
// path args.<field> for arguments that break the tool's schema, with Field "decision" or "remember" for what the policy does not allow.
type Approvals interface {
	// Approvals lists those of a tenant, oldest first. The query is checked for shape, and its Limit is 1 to 500; a page token that is
	// none is [agent.CodeInvalid] with Field "page_token". Pending ones are those of turns that have not ended.
	Approvals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error)
	// Approval returns one. [agent.CodeNotFound] for one that is unknown or belongs to another tenant, in the same words. tenant may be
	// [AnyTenant].
	Approval(ctx context.Context, tenant, id string) (agent.Approval, error)
}

// Sessions is the part of a [Runtime] that hands out and forgets whole conversations. [agent.CodeNotFound] for a session that is unknown
// or belongs to another tenant.
type Sessions interface {
	// ExportSession returns everything that is kept of a session.
	ExportSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionExport, error)
	// DeleteSession forgets a session with its turns, messages, events, approvals and the content that nothing else refers to; the bill
	// stays. [agent.CodeConflict] while a turn runs or waits in it.
	DeleteSession(ctx context.Context, tenant string, s agent.SessionID) (agent.SessionDeleted, error)
}

// Collections is the part of a [Runtime] that keeps knowledge. [agent.CodeNotFound] with Field "collection" for one that the catalog does
// not have.
type Collections interface {
	// AddKnowledge reads a file to its end and stores its documents: one, or many of a JSONL file. Those that are there already with the
	// same content stay as they are. [agent.CodeInvalid] for a format that is not supported or cannot be read; [agent.CodeOverflow] for
	// one that is too large. An error of Body is returned as it is.
	AddKnowledge(ctx context.Context, k KnowledgeAdd) ([]agent.KnowledgeDocument, error)
	// Knowledge lists the documents of a collection behind an id, by id, at most limit of them.
	Knowledge(ctx context.Context, tenant, collection, after string, limit int) (agent.KnowledgePage, error)
	// DeleteKnowledge forgets a document. [agent.CodeNotFound] for one that is not there.
	DeleteKnowledge(ctx context.Context, tenant, collection, id string) error
	// SearchKnowledge finds the topK best passages, as an agent of the collection would; topK 0 is as many as an agent gets.
	SearchKnowledge(ctx context.Context, tenant, collection, text string, topK int) ([]agent.Passage, error)
}

// KnowledgeAdd is a file for a knowledge collection.
type KnowledgeAdd struct {
	Tenant     string
	Collection string
	ID         string          // of the document; empty: made of the source, or of the content
	Title      string          // empty: the document's own
	Source     string          // URL or file name, for citations; its extension helps when the MIME type does not
	MIMEType   string          // without parameters; empty: not known
	Metadata   json.RawMessage // an object, or nil
	Body       io.Reader
}

// Datasets is the part of a [Runtime] that hands out rows, and says of a turn what a job's result needs besides its output.
type Datasets interface {
	// Dataset opens the rows of a result: a reference (artifact:// or cas://), a result id, a turn id, or a job id. What it yields is JSON:
	// an array of rows, or the document that the result is. The caller closes it; reading ends soon after ctx does. [agent.CodeNotFound]
	// for what is unknown or belongs to another tenant, in the same words. tenant may be [AnyTenant]; a cas:// reference is then one of
	// [agent.DefaultTenant].
	Dataset(ctx context.Context, tenant, ref string) (io.ReadCloser, error)
	// ResultMetadata returns what is known of a finished turn besides its output. [agent.CodeNotFound] for one that has no result, or is
	// another tenant's. tenant may be [AnyTenant].
	ResultMetadata(ctx context.Context, tenant string, id agent.TurnID) (agent.ResultMetadata, error)
}

// Examiner is the part of a [Runtime] that tries a live model out.
type Examiner interface {
	// Doctor runs the verification checklist against the models of an agent, or the one of a profile alone, and reports each
	// check as it is done, from one goroutine at a time and before it returns; it goes on after a check that failed, which is no error.
	// Empty names mean the default agent and its default model. [agent.CodeNotFound] with Field "agent" or "model" before the first check.
	Doctor(ctx context.Context, tenant, agentName, profile string, report func(DoctorCheck)) error
}

// DoctorCheck is one line of the checklist.
type DoctorCheck struct {
	Name   string  `json:"name"`           // what was tried, in a few words
	Rule   string  `json:"rule,omitempty"` // the wiring rule that it stands for (docs/wiring.md)
	OK     bool    `json:"ok"`
	Detail string  `json:"detail,omitempty"` // for a person; no secrets
	TookMS float64 `json:"took_ms"`
}
