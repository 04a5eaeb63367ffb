package agent

import (
	"context"
	"encoding/json"
	"time"
)

// KnowledgeQuery is a search in one collection.
type KnowledgeQuery struct {
	Tenant     string // of the collection
	Collection string
	Text       string
	TopK       int        // maximum number of passages
	MinScore   float64    // of the vector's cosine similarity, 0 to 1; 0: no bound
	Embedding  *PlanModel // nil: only full-text search
}

// Passage is a piece of a document that a search has found.
type Passage struct {
	ID         string          `json:"id"` // of the chunk
	Collection string          `json:"collection"`
	DocumentID string          `json:"document_id"`
	Title      string          `json:"title,omitempty"`
	Source     string          `json:"source,omitempty"` // URL or file name, for the citation
	Text       string          `json:"text"`
	Position   int             `json:"position"` // of the chunk in its document, from 0
	Page       int             `json:"page,omitempty"`
	Score      float64         `json:"score"` // comparable only with scores of the same search
	Metadata   json.RawMessage `json:"metadata,omitempty"`
}

// KnowledgeDocument is one document of a collection.
type KnowledgeDocument struct {
	Tenant     string          `json:"tenant"`
	Collection string          `json:"collection"`
	ID         string          `json:"id"` // chosen by the caller, or else derived from the source
	Title      string          `json:"title,omitempty"`
	Source     string          `json:"source,omitempty"`
	MIMEType   string          `json:"mime_type,omitempty"`
	Hash       string          `json:"hash"` // sha256:<hex> of content, chunking and embedding model; a document with the same hash is not stored again
	Bytes      int64           `json:"bytes"`
	Chunks     int             `json:"chunks"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// KnowledgeChunk is a stored piece of a document.
type KnowledgeChunk struct {
	Position  int
	Page      int // 0 if the format has no pages
	Text      string
	Embedding []float32 // may be nil
}

// KnowledgePage is a page of a collection's documents, sorted by ID.
type KnowledgePage struct {
	Documents []KnowledgeDocument `json:"documents"`
	Next      string              `json:"next,omitempty"` // parameter after of the next page; empty on the last page
}

// Embedder converts texts to vectors of equal length, in order.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// The branches of an ask agent.
const (
	BranchRetrieval      = "retrieval"
	BranchCode           = "code"
	BranchConversational = "conversational"
)

// Prepared is the result of a turn's preparation. It is part of the prompt of every model call of the turn.
type Prepared struct {
	TurnID   TurnID       `json:"turn_id"`
	Tenant   string       `json:"tenant"`
	Fence    Fence        `json:"-"`
	Branch   string       `json:"branch,omitempty"`
	Query    string       `json:"query"` // the search query
	Passages []Passage    `json:"passages"`
	Calls    []UsageEntry `json:"-"` // model calls of the preparation, billed as step 0
	Usage    Usage        `json:"usage"`
}

// PrepareVerdict is the part of the preparation's result that the core needs.
type PrepareVerdict struct {
	Branch    string   `json:"branch,omitempty"`
	Passages  int      `json:"passages,omitempty"`
	Requests  int      `json:"requests,omitempty"` // to the provider
	Usage     Usage    `json:"usage"`
	Cancelled bool     `json:"cancelled,omitempty"`
	OutOfTime bool     `json:"out_of_time,omitempty"`
	Failure   *Failure `json:"failure,omitempty"`     // the preparation failed, permanently unless RetryInMS is set
	RetryInMS int64    `json:"retry_in_ms,omitempty"` // the delay before the turn prepares again
}
