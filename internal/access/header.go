package access

import (
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// MaxCredential bounds a credential in bytes.
const MaxCredential = 8 << 10

// KeyPrefix begins every API key.
const KeyPrefix = "tsk_"

// Refused makes the error of a credential that does not hold.
func Refused(format string, args ...any) *agent.Error {
	return agent.Errorf(agent.CodeUnauthenticated, "", format, args...)
}

// Bearer reads the values of the header Authorization: none is no credential, and anything but one bearer token is refused. Nothing of a
// value is ever repeated in an error.
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
	return credential("Authorization", strings.TrimLeft(token, " "))
}

// Key reads the values of the header X-API-Key.
func Key(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return credential("X-API-Key", strings.Trim(values[0], " \t"))
	default:
		return "", Refused("the header X-API-Key is there %d times", len(values))
	}
}

func credential(header, text string) (string, error) {
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
