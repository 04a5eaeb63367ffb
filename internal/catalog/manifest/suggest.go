package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// suggestField returns a question about the field that was probably meant, empty if no name is similar.
func suggestField(name string, fields map[string]any) string {
	plain := func(s string) string {
		return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
	}
	best, bestEdits := "", 1+min(2, len(name)/3)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		edits := schema.EditDistance(plain(name), plain(field))
		if edits < bestEdits || edits == bestEdits && best != "" && lengthDifference(field, name) < lengthDifference(best, name) {
			best, bestEdits = field, edits
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean \"" + best + "\"?"
}

func lengthDifference(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// secretHint returns message, or where a secret belongs if the unknown field is named like one.
func secretHint(kind agent.Kind, name, message string) string {
	switch strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name)) {
	case "apikey", "key", "token", "accesstoken", "bearer", "bearertoken", "secret", "password", "passwd", "credentials", "clientsecret":
	default:
		return message
	}
	switch kind {
	case agent.KindAuth:
		return "unknown field; give a reference to the secret in secret, password or client_secret: env:NAME or file:/path"
	case agent.KindModel, agent.KindBinding:
		return "unknown field; a secret belongs in an AuthProfile as env:NAME or file:/path, and its name in auth"
	default:
		return "unknown field; a secret belongs in an AuthProfile as env:NAME or file:/path"
	}
}
