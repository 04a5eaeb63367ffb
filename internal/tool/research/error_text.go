package research

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxErrorText is the maximum number of characters that are quoted from an error response.
const maxErrorText = 300

// errorText returns the message of an error response, from which a model can correct its query. It reads only the usual fields for messages,
// because services repeat requests in others (NCBI: {"error":"API key invalid","api-key":"…"}). It returns no text that contains a secret,
// and none from HTML pages.
func errorText(body []byte, media string, secrets []string) string {
	text := ""
	switch trimmed := strings.TrimSpace(string(body[:min(len(body), 64<<10)])); {
	case strings.HasPrefix(trimmed, "{"):
		text = jsonErrorText([]byte(trimmed), 0)
	case strings.HasPrefix(trimmed, "<"):
	case media == "text/plain", media == "":
		text = trimmed
	}
	if slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(text, secret) }) {
		return ""
	}
	return clip(tidy(text), maxErrorText)
}

// jsonErrorText returns the message of an error in JSON: {"error":"…","message":"…"}, {"error":{"detail":"…"}}, {"errMsg":"…"}.
func jsonErrorText(raw json.RawMessage, depth int) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var object map[string]json.RawMessage
	if depth > 2 || json.Unmarshal(raw, &object) != nil {
		return ""
	}
	var texts []string
	for _, name := range []string{"error", "ERROR", "errMsg", "message", "detail"} {
		if t := jsonErrorText(object[name], depth+1); t != "" {
			texts = append(texts, t)
		}
	}
	return strings.Join(texts, ": ")
}
