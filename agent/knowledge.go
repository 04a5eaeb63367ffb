package agent

import (
	"context"
	"encoding/json"
	"time"
)

// KnowledgeQuery searches one collection.
type KnowledgeQuery struct {
	Tenant     string // whose collection it is
	Collection string
	Text       string
	TopK       int        // maximum number of passages
	MinScore   float64    // of the vector's cosine similarity, 0 to 1; 0: no bound
	Embedding  *PlanModel // nil: full-text search alone
}

// Passage is a piece of a document that was found.
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
	ID         string          `json:"id"` // chosen by who adds it, else made of the source
	Title      string          `json:"title,omitempty"`
	Source     string          `json:"source,omitempty"`
	MIMEType   string          `json:"mime_type,omitempty"`
	Hash       string          `json:"hash"` // sha256:<hex> of content, chunking and embedding model: the same hash is not stored again
	Bytes      int64           `json:"bytes"`
	Chunks     int             `json:"chunks"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	UpdatedAt  time.Time       `json:"updated_at"`
}

// KnowledgeChunk is a piece of a document as it is stored.
type KnowledgeChunk struct {
	Position  int
	Page      int // 0: the format has no pages
	Text      string
	Embedding []float32 // nil: none
}

// KnowledgePage is a page of a collection's documents, by id.
type KnowledgePage struct {
	Documents []KnowledgeDocument `json:"documents"`
	Next      string              `json:"next,omitempty"` // the parameter after of the next page; empty: this is the last
}

// Embedder turns texts into vectors of one length, in order.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// The branches of an ask agent.
const (
	BranchRetrieval      = "retrieval"
	BranchCode           = "code"
	BranchConversational = "conversational"
)

// Prepared is the outcome of a turn's preparation. It is part of the prompt of every model call of the turn.
type Prepared struct {
	TurnID   TurnID       `json:"turn_id"`
	Tenant   string       `json:"tenant"`
	Fence    Fence        `json:"-"`
	Branch   string       `json:"branch,omitempty"`
	Query    string       `json:"query"` // the question as reformulated for the search
	Passages []Passage    `json:"passages"`
	Calls    []UsageEntry `json:"-"` // model calls of the preparation, billed as step 0
	Usage    Usage        `json:"usage"`
}

// PrepareVerdict is the part of the preparation's outcome that the core needs.
type PrepareVerdict struct {
	Branch    string   `json:"branch,omitempty"`
	Passages  int      `json:"passages,omitempty"`
	Requests  int      `json:"requests,omitempty"` // to the provider
	Usage     Usage    `json:"usage"`
	Cancelled bool     `json:"cancelled,omitempty"`
	OutOfTime bool     `json:"out_of_time,omitempty"`
	Failure   *Failure `json:"failure,omitempty"`     // the preparation failed: for good, unless RetryInMS is set
	RetryInMS int64    `json:"retry_in_ms,omitempty"` // the turn waits so long and prepares again
}
