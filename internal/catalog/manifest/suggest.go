package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
)

// suggestField returns "; did you mean …?" with the most similar field, empty if no field is similar.
func suggestField(name string, fields map[string]any) string {
	best, bestEdits := "", 1+min(2, len(name)/3)
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		edits := schema.EditDistance(letters(name), letters(field))
		isCloser := edits == bestEdits && best != "" && lengthDifference(field, name) < lengthDifference(best, name)
		if edits < bestEdits || isCloser {
			best, bestEdits = field, edits
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean \"" + best + "\"?"
}

func lengthDifference(a, b string) int { return max(len(a)-len(b), len(b)-len(a)) }

// letters returns a name in lower case without separators.
func letters(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// secretHint returns the message for an unknown field. If the field has the name of a secret, the message says where secrets belong.
func secretHint(kind agent.Kind, name, message string) string {
	switch letters(name) {
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
