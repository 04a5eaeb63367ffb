package agent

import (
	"encoding/json"
	"time"
)

// Reference is a source that tools have found in a conversation.
type Reference struct {
	Number  int             `json:"number"`            // its number in the conversation, from 1; 0 before it is stored
	Key     string          `json:"key"`               // identifies the source: doi:10.1/x, pmid:…, nct:…, url:…
	Aliases []string        `json:"aliases,omitempty"` // other keys of the same source
	Source  string          `json:"source"`            // pubmed, clinical_trials, preprints, openalex, web
	Item    json.RawMessage `json:"item"`              // CSL-JSON, one item
	AddedAt time.Time       `json:"added_at"`
}
