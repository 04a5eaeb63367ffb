package access

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// MaxCredential bounds a credential in bytes.
const MaxCredential = 8 << 10

// KeyPrefix begins every API key.
const KeyPrefix = "tsk_"

// Refused returns the error for a credential that is not valid.
func Refused(format string, args ...any) *agent.Error {
	return agent.Errorf(agent.CodeUnauthenticated, "", format, args...)
}

// Bearer returns the token in the values of the header Authorization, "" if there are none. Anything but one bearer token is refused. Errors
// never repeat a value.
func Bearer(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1:
		return "", Refused("the header Authorization is there %d times", len(values))
	}
	scheme, token, _ := strings.Cut(strings.Trim(values[0], " \t"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return "", Refused("want the header Authorization: Bearer and an API key or a token")
	}
	return checkCredential("Authorization", strings.TrimLeft(token, " "))
}

// Key returns the key in the values of the header X-API-Key, "" if there are none.
func Key(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return checkCredential("X-API-Key", strings.Trim(values[0], " \t"))
	default:
		return "", Refused("the header X-API-Key is there %d times", len(values))
	}
}

// checkCredential returns the text, or an error if it cannot be a credential.
func checkCredential(header, text string) (string, error) {
	switch {
	case text == "":
		return "", Refused("the header %s holds no credential", header)
	case len(text) > MaxCredential:
		return "", Refused("the credential is longer than %d bytes", MaxCredential)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", Refused("the credential holds a space or a character outside ASCII")
	}
	return text, nil
}
