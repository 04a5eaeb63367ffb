package agent

import (
	"encoding/json"
	"time"
)

// Reference is a source that a conversation's tools have found.
type Reference struct {
	Number  int             `json:"number"`            // in its conversation, 1 for the first; 0 before it is kept
	Key     string          `json:"key"`               // what makes it the same source: doi:10.1/x, pmid:…, nct:…, url:…
	Aliases []string        `json:"aliases,omitempty"` // other keys of the same source
	Source  string          `json:"source"`            // pubmed, clinical_trials, preprints, openalex, web
	Item    json.RawMessage `json:"item"`              // CSL-JSON, one item
	AddedAt time.Time       `json:"added_at"`
}
