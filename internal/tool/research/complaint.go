package research

import (
	"encoding/json"
	"strings"
)

// maxComplaint bounds what is quoted of an error response, in characters.
const maxComplaint = 300

// errorText returns what an error response says, so that a model can correct its query. Services repeat what they were sent, keys included
// (NCBI: {"error":"API key invalid","api-key":"…"}). So only fields with words are read, and a text with a secret in it is not quoted at
// all. Pages in HTML say nothing that a model could use.
func errorText(body []byte, media string, secrets []string) string {
	text := ""
	switch trimmed := strings.TrimSpace(string(body[:min(len(body), 64<<10)])); {
	case strings.HasPrefix(trimmed, "{"):
		text = errorWords([]byte(trimmed), 0)
	case strings.HasPrefix(trimmed, "<"):
	case media == "text/plain", media == "":
		text = trimmed
	}
	for _, secret := range secrets {
		if strings.Contains(text, secret) {
			return ""
		}
	}
	return clip(tidy(text), maxComplaint)
}

// errorWords returns the words of an error in JSON: {"error":"…","message":"…"}, {"error":{"detail":"…"}}, {"errMsg":"…"}.
func errorWords(raw json.RawMessage, depth int) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var object map[string]json.RawMessage
	if depth > 2 || json.Unmarshal(raw, &object) != nil {
		return ""
	}
	var found []string
	for _, name := range []string{"error", "ERROR", "errMsg", "message", "detail"} {
		if words := errorWords(object[name], depth+1); words != "" {
			found = append(found, words)
		}
	}
	return strings.Join(found, ": ")
}
